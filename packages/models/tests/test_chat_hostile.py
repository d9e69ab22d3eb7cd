"""Templates that attack: each ends in a named error, soon and in little memory."""

import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rase_core.errors import InvalidConversation, TemplateError
from rase_models.chat import ChatTemplate

MESSAGES = [{"role": "user", "content": "hi"}]
BIG = "{% set s = 'a' * 4000000 %}"
DEEP = "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}"
GROW = "{% set ns = namespace(x='aa') %}{% for i in range(60) %}"
KEEP = "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}"

BOMBS = {
    "a product of text": "{{ 'a' * 10**10 }}",
    "a product of a list": "{{ ([1] * 10**9) | length }}",
    "a power": "{{ 2 ** (10 ** 9) }}",
    "a product of numbers": GROW.replace("'aa'", "3") + "{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a large range": "{% for i in range(10**9) %}{% endfor %}",
    "a filtered loop": "{% for i in range(99999) %}{% for j in range(9999) if 0 %}{% endfor %}{% endfor %}",
    "doubling by +": GROW + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "doubling by ~": GROW + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "doubling by join": GROW + "{% set ns.x = [ns.x, ns.x] | join %}{% endfor %}",
    "doubling by format": GROW + "{% set ns.x = '%s%s' % (ns.x, ns.x) %}{% endfor %}",
    "doubling by str.format": GROW + "{% set ns.x = '{0}{0}'.format(ns.x) %}{% endfor %}",
    "doubling by replace": GROW + "{% set ns.x = ns.x.replace('a', 'aa') %}{% endfor %}",
    "doubling by blocks": "{% set x = 'aa' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60,
    "doubling by macros": "{% macro m(n) %}{{ m(n-1) ~ m(n-1) if n }}{% endmacro %}{{ m(60) }}",
    "a macro without end": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "a block without end": "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
    "a recursive loop": "{% for i in [1, 2] recursive %}{{ loop([1, 2]) if loop.depth < 40 }}{% endfor %}",
    "text of deep lists": DEEP + "{{ ns.x }}",
    "JSON of deep lists": DEEP + "{{ ns.x | tojson }}",
    "comparing deep lists": DEEP + DEEP.replace("ns", "other") + "{{ ns.x == other.x }}",
    "testing deep lists": DEEP + DEEP.replace("ns", "other") + "{{ ns.x is eq other.x }}",
    "hashing deep tuples": DEEP + "{{ {ns.x: 1} }}",
    "finding deep tuples": DEEP + "{{ {1: 1}[ns.x] }}",
    "getting deep tuples": DEEP + "{{ {1: 1}.get(ns.x) }}",
    "changing deep tuples": DEEP + "{% for i in 'ab' %}{{ loop.changed(ns.x) }}{% endfor %}",
    "text of a repeated list": BIG + "{{ [s] * 100000 }}",
    "joining a repeated list": BIG + "{{ ''.join([s] * 100000) }}",
    "joining by a long text": BIG + "{{ ('a' * 100000) | join(s) }}",
    "joining a generator": BIG + "{{ range(100000) | map('string') | join(s) }}",
    "searching again and again": BIG + "{% for i in range(99999) %}{{ s.count('b') }}{% endfor %}",
    "searching by a test": BIG + "{{ range(99999) | map('string') | select('in', s) | list }}",
    "sorting long texts": BIG + "{{ ([s, s[1:] + 'b'] * 50000) | sort }}",
    "sorting a generator": BIG + "{{ ([s, s[1:] + 'b'] * 50000) | map('string') | sort }}",
    "keeping slices": BIG + KEEP + "{% set ns.l = ns.l + [s[i:]] %}{% endfor %}",
    "keeping copies": BIG + KEEP + "{% set ns.l = ns.l + [s | upper] %}{% endfor %}",
    "splitting": "{{ ('a' * 4000000).split('a') | length }}",
    "splitting lines": "{{ ('\\n' * 4000000).splitlines() | length }}",
    "listing": "{{ ('a' * 4000000) | list | length }}",
    "writing much": "{% for i in range(99999) %}{{ 'a' * 100000 }}{% endfor %}",
    "writing its own text": "{% for i in range(99999) %}" + "x" * 60000 + "{% endfor %}",
    "a width": "{{ '%999999999d' % 1 }}",
    "a computed width": "{{ '%*d' % (999999999, 1) }}",
    "a width by filter": "{{ '%999999999d' | format(1) }}",
    "a width by str.format": "{{ '{:999999999}'.format(1) }}",
    "a nested width": "{{ '{:{}}'.format(1, 999999999) }}",
    "an indent": "{{ 'a\nb' | indent(10**9) }}",
    "a JSON indent": "{{ [1] | tojson(indent=10**9) }}",
    "digits": "{{ 1.5 | round(10**8, 'floor') }}",
    "pretty printing": "{{ ([[1]*1000]*1000) | pprint }}",
    "wrapping": "{{ ('a '*1000000) | wordwrap(1) }}",
    "filling batches": "{{ [1] | batch(10**9, 'x') | list | length }}",
    "slicing": "{{ [1] | slice(10**8) | list | length }}",
    "a listed range": "{{ range(10**9) | list | length }}",
    "a random number": "{{ range(10**9) | random }}",
    "a sum of lists": "{{ ([[1]*1000]*1000) | sum(start=[]) | length }}",
    "grouping": "{{ (range(99999) | map('string') | list) | groupby('x') | list | length }}",
    "digits of a number": "{{ (10 ** (10**5)) | string | length }}",
    "squares": "{% set ns = namespace(x=10) %}{% for i in range(40) %}{% set ns.x = ns.x**2 %}{% endfor %}",
    "nested calls": "{% macro m() %}{{ caller() * 2 }}{% endmacro %}"
    + "{% call m() %}" * 50
    + "a"
    + "{% endcall %}" * 50,
    "growing dicts": KEEP + "{% set ns.d = dict(ns.d or {}, **{'k' ~ i: 'x' * i}) %}{% endfor %}",
    "arguments": "{% macro m() %}{{ kwargs }}{% endmacro %}{% set d = dict(a='x'*4000000) %}"
    "{% for i in range(99999) %}{{ m(**d) }}{% endfor %}",
    "replacing nothing": "{{ ('a'*4000000) | replace('', 'b'*1000) | length }}",
    "tabs": "{{ '\\t'.expandtabs(10**10) }}",
    "a translation": "{{ ('a'*4000000).translate({97: 'b'*1000}) }}",
    "a JSON separator": "{{ ([1]*4000) | tojson(separators=('a'*1000000, ':')) }}",
    "many dates": "{{ strftime_now('%c'*1000000) | length }}",
    "a date": "{{ strftime_now('%999999999Y') }}",
    "deep brackets": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep loops": "{% for a in 'a' %}" * 60 + "{% endfor %}" * 60,
    "deep minus": "{{ " + "-" * 50000 + "1 }}",
    "a long template": "x" * 70000,
    "text of a dict's values": BIG + "{{ {1: [s] * 100000}.values() }}",
    "text of a dict's items": BIG + "{{ {1: [s] * 100000}.items() | string }}",
    "formatting a dict's values": BIG + "{{ '%s' % ({1: [s] * 100000}.values(),) }}",
    "joining a dict's values": BIG + "{{ [{1: [s] * 100000}.values()] | join }}",
    "comparing a dict's items": DEEP
    + DEEP.replace("ns", "n")
    + "{{ {1: ns.x}.items() == {1: n.x}.items() }}",
    "dividing numbers": "{% set a = 2 ** 3900000 %}{{ a // (a - 1) }}",
    "the rest of a division": "{{ 7 ** 8000 * 7 ** 8000 % (3 ** 9000) }}",
    "digits to a number": "{{ ('f' * 4000000) | int(base=16) is divisibleby 7 }}",
    "a list that is added to": "{% set l = [] %}{% for i in range(99999) %}{{ l.append(i) }}{% endfor %}",
    "a list that is added to itself": (
        "{% set l = [] %}{% for i in range(99999) %}{{ l.append(l) }}{% endfor %}"
    ),
    "a sum of numbers": GROW.replace("'aa'", "1").replace("60", "99999")
    + "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "reading numbers": BIG.replace("a'", "1'") + "{% for i in range(99999) %}{{ s | float }}{% endfor %}",
    "a number without end": "{{ 1." + "9" * 400 + "e999 }}",
    "an undefined way": "{% set x = loop.x.y %}",
}

LONG = {
    "a chain of comparisons": "{{ a" + " < a" * 4500 + " }}",
    "a chain of texts": "{{ a" + "~a" * 8500 + " }}",
    "a chain of attributes": "{{ a" + ".a" * 5000 + " }}",
    "a chain of ways": "{% if a %}" + "{% elif a %}" * 3000 + "{% endif %}",
    "many values": "{{a}}" * 8500,
}

ESCAPES = {
    "a class": "{{ ''.__class__.__mro__ }}",
    "subclasses": "{{ ().__class__.__bases__[0].__subclasses__() }}",
    "globals of a function": "{{ raise_exception.__globals__.x }}",
    "globals of a macro": "{{ self.__init__.__globals__ }}",
    "globals of a format": "{{ ''.format.__globals__.x }}",
    "a format's attribute": "{{ '{0.__class__.__mro__}'.format('') }}",
    "a format_map's attribute": "{{ '{a.__class__.__mro__}'.format_map({'a': ''}) }}",
    "the attr filter": "{{ '' | attr('__class__') }}",
    "attributes by map": "{{ (['']|map(attribute='__class__')|first).x }}",
    "a hidden namespace name": "{% set ns = namespace(__class__=1) %}",
    "setting a hidden namespace name": "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "appending to messages": "{{ messages.append(1) }}",
    "popping messages": "{{ messages.pop() }}",
    "appending to a slice of messages": "{{ messages[:].append(1) }}",
    "emptying a list": "{{ [1].clear() }}",
    "sorting a list in place": "{{ [1].sort(key=raise_exception) }}",
    "changing by the type": "{{ dict.update(messages[0], {}) }}",
    "encoding": "{{ 'a'.encode() }}",
    "bytes of a number": "{{ (1).to_bytes(10**10, 'big') }}",
    "padding": "{{ 'a'.center(10**10) }}",
    "padding by filter": "{{ 'a' | center(10**10) }}",
    "filler text": "{{ lipsum(10**9) }}",
    "an import": "{% import 'os' as x %}",
    "an include": "{% include '/etc/passwd' %}",
    "an import of names": "{% from 'os' import system %}",
    "an extension": "{% extends messages %}",
    "the context": "{{ self._TemplateReference__context.x }}",
    "globals of a namespace": "{{ namespace.__init__.__globals__.x }}",
    "globals of a loop": "{% for a in 'a' %}{{ loop.__init__.__globals__.x }}{% endfor %}",
    "a macro's function": "{% macro m() %}{% endmacro %}{{ m._func.__globals__ }}",
    "a generator's frame": "{{ ('a' | map('upper')).gi_frame.f_globals }}",
    "a mapped format": "{{ ['{0.__class__}'] | map('format', 1) | first }}",
    "a fetched format": "{{ ('{0.__class__}' | attr('format'))(1) }}",
    "an attribute to sort by": "{{ ['a', 'b'] | max(attribute='__class__.__name__') }}",
    "a cycler": "{{ cycler(1, 2).next() }}",
    "a joiner": "{{ joiner()() }}",
    "a new statement": "{% do messages.append(1) %}",
    "changing a message": "{{ messages[0].update({'a': 1}) }}",
}

HIDDEN = {
    "an indirect format": "{% set f = '{0.__class__}'.format %}{{ f(1) }}",
    "a default of a macro": "{% macro m(f='{0.__class__}'.format) %}{{ f(1) }}{% endmacro %}{{ m() }}",
    "a safe format": "{{ ('{0.__class__}' | safe).format(1) }}",
    "an item that is a method": "{{ '{0.__class__}'['format'](1) }}",
    "a base": "{{ dict.__base__ }}",
    "an environment": "{% macro m() %}{% endmacro %}{{ m._environment }}",
    "an iterator": "{% for a in 'a' %}{{ loop._iterator }}{% endfor %}",
    "code": "{{ raise_exception.__code__ }}",
    "a join by class": "{{ ['a'] | join(attribute='__class__') }}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_soon_and_in_little_memory(name: str) -> None:
    tracemalloc.start()
    start = time.thread_time()
    try:
        with pytest.raises(TemplateError):
            ChatTemplate(BOMBS[name]).render(MESSAGES)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.thread_time() - start < 8  # tracing memory makes it several times slower
    assert peak < 400e6


@pytest.mark.parametrize("name", LONG)
def test_a_template_of_many_parts_is_refused_soon(name: str) -> None:
    start = time.thread_time()
    with pytest.raises(TemplateError):
        ChatTemplate(LONG[name]).compile()
    assert time.thread_time() - start < 2


@pytest.mark.parametrize("name", ESCAPES)
def test_an_escape_is_refused(name: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(ESCAPES[name]).render(MESSAGES)


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_has_no_text(name: str) -> None:
    assert ChatTemplate(HIDDEN[name]).render(MESSAGES) == ""


def test_a_namespace_does_not_tell_what_it_holds() -> None:
    source = BIG + "{% set ns = namespace() %}{% set ns.l = [s] * 100000 %}"
    shown = "{{ ns }}{{ ns ~ 1 }}{{ '%s' % ns }}{{ [ns] | join }}"
    assert len(ChatTemplate(source + shown).render(MESSAGES)) < 100


WORDS = """
a ns messages loop self caller m range dict namespace 'x' 0 1.5 9e999 none true [ ] ( ) { } . , : | ~ + - *
** / // % = == < in is not and if else length list string map tojson join items format content {{ }} {% %}
{# #} endfor endif elif set endset endmacro endcall endblock endfilter raw break recursive generation with
endgeneration endwith
"""
FRAGMENTS = (*WORDS.split(), "for x in", "macro m()", "call m()", "block b", "filter upper", "\n")


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(" ".join), st.booleans())
def test_no_template_fails_without_a_name(source: str, is_expression: bool) -> None:
    try:
        text = ChatTemplate("{{ " + source + " }}" if is_expression else source).render(MESSAGES)
    except TemplateError as error:
        assert str(error)
    else:
        assert isinstance(text, str)


def test_a_bomb_of_loops_ends_after_about_a_second() -> None:
    start = time.thread_time()
    with pytest.raises(TemplateError, match="takes too long"):
        ChatTemplate(BOMBS["nested loops"]).render(MESSAGES)
    assert 0.3 < time.thread_time() - start < 2


def test_what_the_template_raises_is_the_conversations_fault() -> None:
    with pytest.raises(InvalidConversation, match="roles must alternate"):
        ChatTemplate("{{ raise_exception('roles must alternate') }}").render(MESSAGES)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a\n{% if %}", 2),
        ("{{ x", 1),
        ("\n\n{% endfor %}", 3),
        ("{{ 1 | nofilter }}", 1),
        ("\n{{ x.y.z }}", 2),
        ("\n\n{{ 1 / 0 }}", 3),
        ("{% macro m() %}\n{{ 1 + 'a' }}{% endmacro %}\n{{ m() }}", 2),
        ("{{ [1][5].x }}", 1),
        ("{{ messages | tojson(1, 2, 3, 4, 5, 6) }}", 1),
        ("{{ {'a': x} | tojson }}", 1),
        ("{{ ', '.join(3) }}", 1),
    ],
)
def test_a_broken_template_is_named_by_its_line(source: str, line: int) -> None:
    with pytest.raises(TemplateError, match=f"^the manifest's, line {line}: .") as caught:
        ChatTemplate(source, "the manifest's").render(MESSAGES)
    assert not isinstance(caught.value, InvalidConversation)
    assert caught.value.advice


def test_a_template_can_be_checked_without_messages() -> None:
    ChatTemplate("{{ messages }}").compile()
    with pytest.raises(TemplateError, match="line 1"):
        ChatTemplate("{% nothing %}").compile()
