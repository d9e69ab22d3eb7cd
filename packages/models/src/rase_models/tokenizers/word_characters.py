"""What BERT's normalisation and its cutting into words make of each character.

Which characters stay as they are, whatever the settings, is known here; the library is asked of the others.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rase_models.tokenizers.character_kinds import CODE_POINTS, decoded_runs

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

STAYS, GOES, IS_SPACE, IS_WORD, ASKS = range(5)
"""The kinds: in a word as it is, left out, between words, a word of its own, and what depends on settings."""

_AT_ONCE = 128
"""Characters that the library is asked of in one text; it takes quadratic time."""


@cache
def word_kinds() -> NDArray[np.uint8]:
    """Return the kind of each code point, uint8 [0x110000]."""
    starts, kinds = decoded_runs(_RUNS)
    return np.repeat(kinds, np.diff(starts, append=np.uint32(CODE_POINTS)))


def asked(library: "Library", codes: Sequence[int]) -> Iterator[str]:
    """Yield what becomes of each character, with spaces where a word ends."""
    for start in range(0, len(codes), _AT_ONCE):
        text = "".join(f"a{chr(code)}a zz " for code in codes[start : start + _AT_ONCE])
        normal = library.normalizer.normalize_str(text)
        words = " ".join(word for word, _ in library.pre_tokenizer.pre_tokenize_str(normal))
        for part in words.split(" zz")[:-1]:
            yield part.strip(" ")[1:-1]


# Made by tests/make_word_characters.py.
_RUNS = r"""
c-
rk(yN={U6uq}x?e3kKogH>0H0%T1V+V);34{a*l4si?L?mR?(*6Z<qxLsIh*#4QAu)khZGM3S2^qBm{(x{e_m<r~vom5}%p#;!spN81`99
Bmc*+mxgpTRN9MhUpUQ-sVC=C`gwZ{}wh3POOniBC$*D^a3QHR|IGhunAw8T2Y{?hop1n(vJd&zLOf6wK6lTz02$ukFya<g{&EYF=MI6qG
(!<~d$JsYO&<ys2=k<jsX^*gTnd+A2D<l=lY*+2g-w5tuj(g=+xXjC@$<hM_m)kc2dpNA1AR2#3C&?+v-`YiMEeeps1oN~R~EU(=6Sjc-
{5B|tsnOrF~*3pWh(Tr+Zj$-
V^u)CkIH})MrhTUhlKNEj&421jjk_x*tDKFHP?F~<pOrmkn={>=_$7gC*9O)kX8RUW6%{d(>>}aljrJ(F%MD!Q`AkG58I;f2;rz0Bxx3;!
|H;<93*P|fIh2o=Q;Rop;r$_=0I4z-
FPBjnF0b~XKN#T}Kf%n3ru8)}9qr`X=JNaJeX#|sSEO1tw<26K#Q$9IzfzbAJ>p*CURq<q41ianYBeYVjON}JqQw0OPY;z{OWIq~bs#DeP
)q7snAwra%iK)=<JIH4tVT!C&?Wlz8xS={+!`88n(O`>-
g|{jvUcX_o@IX{U_t?vXb!p{Z#HY9eqyPc6BE9LOS9Dpy2AM`J8OY3Dr&{dG9)UyDSHNHNSxzyxVY4G1EItSBka5!h_`ER(-
k>os0bYUF6aJfIiZxPNInVJnS1+V?&N=Xw9zv@9Ts@$<M7;vKcYJ<JL9GsxbNN^HtmHtJbFypftwd7Rycw2P<_@*Il{K&mD^+F<n<rdAd$
RIPLp0vzW3eP5c8ZZz%sM)ydORCs90_^?Cg>1rR_N3ZwQ_>)N7>zNrq6fJWp9&e)HT*WEnk$h3m{!MXzMFU!>Rf#H>u)CB>I{kQ4l<!N2q
!WWb{+eS@1F5BRb&<7OcgJlVu-yC0AiDoBGlkXME;PjYd2bp~sSD3)5RVNO~{$_j=gprH@mkmu=Q5EJ<OhIFssI0R!%XETAt|+}@Z`8_d{
!xH9c{0jopCyO1fdA%#g_IWK2r^)lzLuo_(7lsFi4s}akRscAokuW+_!?HaXyZmN%u5haLO_<4bDrUAwzi`D$R^<%rPFZ36FiZ_c5-
jQprfxaL(_BY-7Ovd~Zn)ublF*~V$Kn|SF$)n-
AYHFgLU&iqZ(~u~lolLUM=$~%=cQ{Kop3E+t6;F8Y+2vgJ^I1Bn?CG%(_`2l=nSxB~Ogll=m2L(3i%e!}nkzaZWMX6xlWWFwQq^tVcL-
(g*93Wx%uMOHNwdjI!bf7Sm5dI)Zj)~^t^aBlR57UrQgJkw-
yd?HM@nkCvtcCPv}e`sA7?TiM$L4lomqk}1y`FjBrhj;-dx#AdL>@+)`CNvB;0-qO^>XZp{iLkN5x%f?Jtxws_E^i)=jB%$nx4NNY9rA-Z
CzTy@hCvyASm*Cyh{N-
+|QkknL|vF9>^uF|{K*qBlzG4rA>RI`*{&l6;BNBTS)ol<S`KFf_{59%N#!L8aQ0N{#9{LFL_Dkh_P!fPJ~wnCe}e9fB@ufV%}7hMn9*-
K~+qsqbTI?N&<iz2FoY)#F^cRjq9fK59pac8Qr(CHAO2C8@QQ#_b&atpCqik-Ldqt!<Vo`4buYjFu|L4r^5Vw>&zet`$2?-
__@R9|Q~DFSTcr_qCCnSnXII{&T=>Z`*lPd&3_dIs_wD#%<*8>Q>)#qN8!r$w{rmv-
$|@sP{PD>9<pA&n}Lr1_BPGcT2||G$m;1zOt4kNl@QGU$&cF`ldZAzLWoeZ}p`3zC^Fy5VOeLp`uGS2Tc#qE&tVp&?%G%sI?P=1T5C>n10
kw!=wWW#9C2D?fZ~?46pu-{ZVF9+j$9oy()KKH5R|4H<P>$)%E$)R`Tk-
W;VM*qu1m0`2URP&ne=J_vpaB{gSkP@wMc|$7B3A{2Mg>24NlWKL
"""
