"""What kind of character each code point is, as the `tokenizers` library has it.

Python's own tables differ from one version to the next, and a tokenizer must not.
"""

import base64
import zlib
from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

CATEGORIES = ("", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S")
"""The names of kinds by their number; the first are all others."""

HAN = 16
"""Is added to the number of a character of the Chinese script."""

SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters of white space; Python counts four more."""

CODE_POINTS = 0x110000


def _kinds_of(begin: str) -> frozenset[int]:
    numbers = [number for number, name in enumerate(CATEGORIES) if name.startswith(begin)]
    return frozenset(number + han for number in numbers for han in (0, HAN))


KINDS_OF: Mapping[str, frozenset[int]] = {
    **{name: _kinds_of(name) for name in ("L", *CATEGORIES[1:])},
    "Han": frozenset(range(HAN, HAN + len(CATEGORIES))),
}
"""The kinds of the characters that have a property."""


@cache
def kind_runs() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return where each run of code points of one kind begins, ascending from 0, and its kind."""
    return decoded_runs(_RUNS)


def decoded_runs(text: str) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Return where each run of code points begins, and its kind, of what `encoded_runs` wrote."""
    values = np.frombuffer(zlib.decompress(base64.b85decode("".join(text.split()))), "<u2")
    lengths, kinds = values >> 5, (values & 31).astype(np.uint8)
    return np.cumsum(lengths, dtype=np.uint32) - lengths, kinds


def encoded_runs(kinds: NDArray[np.uint8]) -> str:
    """Return the text of runs for the kinds of all code points, below 32, uint8 [0x110000]."""
    starts, parts = np.flatnonzero(np.diff(kinds, prepend=255)), list[int]()
    lengths = np.diff(starts, append=len(kinds))
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        kind = int(kinds[start])
        whole, rest = divmod(length, _LONGEST_RUN)
        parts += [_LONGEST_RUN << 5 | kind] * whole + ([rest << 5 | kind] if rest else [])
    return base64.b85encode(zlib.compress(np.array(parts, "<u2").tobytes(), 9)).decode()


_LONGEST_RUN = (1 << 11) - 1
# Made by tests/make_character_kinds.py.
_RUNS = r"""
c-rk*y>BDe5ubUxZ%N+i&PHM+hYR4WY%WCxaDoJe?F1=SiuhHybb=HCD8Wlfbzr1OvpO6pF-5vGsn&-
hCH(>EQt%F@K8gTo4oI4SKA4mUqzh6jznNX?B>QaGadL(YLm2Mc_h#qKo9}t@-
A$^{F<_VK+@LLL(6S?QWx$G4&PJhIrUQ(c6zIE8J*wmR67Vauq_Z1<_f3V~C*xGe@FG^99jtuL_0I>(7vuGdu{_tX@AkzwU0eRhcPp3h=k
qI&sZi_S_hp^E{QG%Nx^juq+B4PD93E$~NV(nq$ojo}K<mz`>Cs(2;rleBA}kGHyqj|@nUQCR(K@Vekz!crB1UVl&_#gC*I>-
+uAEwQ@Y(phr_aiTR@OY@{Vya?q3JV~`0^Lz8P5WIdf<u;9Mem-
0c+U8%)pkZ1WTx8P$J^UiQ!KT^39gUtp=>6&1GP3l68wz<$<a5E>(dYEtKJbQ><0!kXAvXLS3xXInpS2%prbDG;-
PwM%UXM(2(mKxFuc%?k4yNvEHPS>0(^sBDL`xVD^lC3Y<1ZvUkJ@SwzecI4p5si{v>zmE4in#tt<jTvWLRZtLK+NE2@3D~tWBpfG}UPw*a
43uluZ1wRD8A<6fk39qQiJ~~(DDtJ1|B6&%%eC!=xp;o;Bp$KVWJ*C*f`xraPj$=@(fv(6oRIUP+ef%qQ`WaUq)&xh+jc>t6%8%reF=h@a
UH|aOF4K5&vN7Q5xhhyc0w01WCu%7t9XzYbtx#$yL?SDWajKT?*j0{(*kQ<fT!20X;37TA1YB4%-`&sf$JkTW<vZav<zNgsoRaX-
#^^GIDqlXsWh%o=&M5_7Z7=5Tg(L%8yYfu{`mxIVG&}i*5!*@EtEL58O7$R|O;lg8%2xE~@esR&>Jc$puY~=kSQiSgJLp2HfW)0ktS|a-
GU>5k!$Lt<=8FK~OXzio+yH)e#!@eAf&K~YfUgqGVHa~Ek&YWv*N9K{;d?ld>r(-
gPe7?j`=~2q|HyV>_jNu7UtLgdt4xL02=9IFviM#da%#f&CDtc^kk)Nkb3st?)f*<+Ib<Bz?CE}VZ6fl@rQ;|s_EqK`k)>%uVh^r`^iaLE
^QN3H5REzwv82K#>K+TtSK;M8N2V?Dg{!6p`Svp%%DCfsuEc~*wU3f&d#JFfo>S6sgecVa#*j^os;*c|LZf`h6X>7|ixsF~Ux@`HNA%F*j
)fmML)zdLHQkAk2-5(S8g?HzVMbZtOk-
q7Q^)rPG_fTk8WCD&)I{v5@Fq?^at17Mu450G5DhzS7n0b=jChXh`yRe|N$b0W)@+EZng^!X{J?Z1CX!f6Te-huKgiuf>|1f~yI%gwo@t&
T@K@ms%;Gl>00v`o<vp#?o`9~htT;S}dsvYQ`ep4kw&2<G_bs{uDl+ylHvBGr!%OQ;Wcj=U`$ZJmM^xHn-
z;fPKGH6y2uqfyPxoQh6?e=ffK-
n?Kr^e|*RtAgi{3?qTGVk0+scvDtsOuUxXb8}7Qt0dzuC|#aStmo6@IWw2Z$H5?+(otCuS#iQaCb&H;?(qsd$)o8oc$RV>8R`Qo(J|$@fD
%QF+|ptlC`rP?ffQQMo-tZL;>2u=o{~aQfD!G`j4fw`|Zu$U@$v(zm%WbXP{EE=gu(iQ=CGo_mIhD(^O70ipX##L*vLkNNMnL#JSTjmEDc
PQ6YI7K{qL&WE6WAA0+Zu1L>|YT}yY%qC<lGu7*5dRwDggq$+EE}3fw5!AXTt`8d4%pA#!Cr%D;r(AIBJah3Z|NC72-g%>tPe)h(-
dgS()OWvc(aiJNT8XorMadb~NZl5j|EC55WLD&5tug;w8d4{Z@=_HZqw<`YqI%TF;je$87FWD<N3s0W_2wnnd{&O%&ES)8wlD1-
W}Qq5S1}XwcE-gjekanM03_2&w(sHDLR9Oamh5=DkUMGzuV#oFn)PdD1PfBT)motAcv!)g+=8zAP78XUAlL7+uTe3U>H(NVRFQS=YYlqHs
BJK3IjvJec&3G|ju08OGV@AVg;vwrCD2NjoGPd^(BTa58>n@JJd)a8;feRI+X~%9z9?$EG}j_mYSCI&B~8xff5AI3PfSdKH$G4QXz|f2A-
#2D=srf3bq_u%dspFieNOAw;8H)+xlu7>qE{MJFcx**2(?xPwQGla<e3Kc^2{cp&2d)8`g+^d08c_`@_bC6?!N2{9H5f3t2BXppPV?<-
eU$@GfLnasGOzdN3@7c%HagE9U)Rh&n4I^rag=7#7nt~sVhGRlC5ZL4=ifP=S6#v1!Ca_dRy!6K&Bn!Im=5@Il2S+b>tLMcU#DGk3!4V*i
j*s?KbA`$eJb8sA3Uo;OKn;y+46&Fn%ncxfPw02OX4r9+{9W6RJU<RuKn_oa9H^5kby2?Y6WBF|vOSdTXL*nII=GF?s2E6Yw)KN5F)2Ith
L$Z*wu#v6e&Ebz}qWYihvkYS$_Cbl(ZJ`zz6s^jv_xQzx<I4d~KBcO9oDvV$JLr`N(0+=7S5B>1hGG4vPnDbcl{F!t8Ggx6sSM^fv;f6{u
nBOX8xQ2P!@V&X%1RFmlTDdbtTzV=Yk`@x=Q>~)0)mVSF=+Ps5$d1$03*rlP{H>Zf*lC9dP%crQeV>)t5>Mf8Kx|qIgv(zHHI8(xbGgjTS
!4Eu-<W3?`T;d2_K|{Z4ll2b4<!&0cNp_bzi%rl$?}AgxEkhSQl=f{j%suINeC>Fu&^ElwcG2<5e%+7lzJ01)>AvUva-!ajj)Fu=*fZ-pw
F7r$Tw-
6losxF1a+8q8203j*V^!jyS3%#fuO8*=twcma$9i2;)f1^kUYJ<fzr<(2#hxy@S0iz)rTW_EmWk{@Wsr6|J0^A_SjrR;ZHL82ah`8?>=dV
t7uYrKhCvU^X%BBXJ*#yN^|Yb(+9j1cBr1F41$W|3^}MO95qTY8AXiT{f96^4nP9U#vYv9cFZwKuQC|$d6}V-+BN}Rd-go6j#ACq;dC!rq
PI|gSNFG`*%%wka54DT;_0D0cyQVfe$}lYaJY5}Rw=%<01lw!q4TIoIEUdbzmiF;2G<QwzVD`*`lRzHTUk?{fZ}{K@{p79jdD09P(1)|_l
97IH%IHDQJO4^((n#ZO{ELxOLsc^TTTma<MC%>N9Fu~t(wCDA^j^q%Q|;^TrvFJ`x#c(&tAZ~^hF*Icv1b)B##gsQE2n0cl7*-
cr?(~W%Pwkk%CFKJsK_93{yC&5*`Rt3Z~LQft31yJtzX>*<qsqxNvtT2A>G7D?`ekc6~wq7;&gs=1D1<O8c633tya{V$LIb(3oi=yz1QNx
Av)VBe71Kp&Yip%qJj&lmm44oAA*jDSTLm%r%MO9#5D75IoorvITn~*^Lfb`Kfmm(ILnSkP9x*=PCC@P3VBNR!h9#o`;Rr+>Ngl|W1X`&J
fHDVQ%JAWn$J2<gFBG@qJ#bf@bJ@*v<j(vg>dTisOIUd443p)X3Sz?Q>NdoK%#fd5ctV$x&0}bP;Y@!>r3dpoR0`aH~Yw2Q)nVoyO3KeDv
uEJeA9tZ)e&(p^OMLalDrLX!<r~iT;zbCPO>Of%_3F*R)|=SeeANk0y{1uf~NN7uW#hgZGqYj#f3d9^>%nmGlk=4H-BMvf8}TQmcB-
>fZ}YNLPS^bKMeD=PFAyY=m|ZIdt%R7v<yt_HEFomvoZA+U=Ogd8E^y+TzETIUZ9-
#o?uj9g}~+$3cp$SE#8rHB+t)o#x%PQYt&nxG0U@%Ll%OC7Lcz`pl6xGx4GW;Vm`qx@?8_sEuc@5UAKTM^tZm@Q|~$?9Y3w}c-
r3|{z0xjb3=Ocose|=*CA)CgE2pP6CU^Kqo0L;mYF|oC5rRb!rU9b{`>mx%k$TI<h}SMKf_=C1N~0iX8
"""
