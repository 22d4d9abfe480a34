"""Random HCL expressions: every operator, every kind of expression, every function that is evaluated."""

from __future__ import annotations

from hypothesis import strategies as st

from holdfast.hcl.eval.functions import FUNCTIONS

CALLED = (*sorted(FUNCTIONS), "try")
"""A new function is covered as soon as it is in the table."""
OPERATORS = ("==", "!=", "<", ">", "<=", ">=", "&&", "||", "+", "-", "*", "/", "%")
KNOWN = ("var.text", "var.number", "var.flag", "var.list", "var.map", "var.set", "var.empty", "var.nothing")
VARIABLES = """\
variable "text" { default = "b/a.json" }
variable "number" { default = 3 }
variable "flag" { default = true }
variable "list" { default = ["b", "a", "b"] }
variable "map" { default = { b = "x", a = "" } }
variable "set" {
  type    = set(string)
  default = ["x", "y"]
}
variable "empty" { default = [] }
variable "nothing" { default = null }
"""

TEXTS = st.sampled_from(
    (
        *('""', '"a"', '"b"', '"true"', '"1"', '"-1"', '"01"', '"0.5"', '"1e3"', '"a b "', '"\\t a\\u001c"'),
        *('"a/b//c/"', '"/"', '"//x"', '"../x"', '"."', '"/a/"', '"%s-%03d"', '"%d%%"', '"%5.2f%q"', '"ß"'),
        *('"é\\u0301"', '"$${x}"'),
    )
)
NUMBERS = st.sampled_from(
    (
        *("0", "1", "2", "3", "7", "-1", "1.5", "0.1", "1.0", "12345678901234567890.0", "9007199254740993.5"),
        *("0.1234567890123456789", "99999999999999999999999999999999999"),
    )
)
SIMPLE = st.one_of(TEXTS, NUMBERS, st.sampled_from(("true", "false", "null")))
NAMES = st.sampled_from(("a", "b", "c"))


def _inside(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, max_size=3).map(", ".join)
    lists = several.map("[{}]".format)
    maps = st.dictionaries(NAMES, inner, max_size=3).map(
        lambda items: "{" + ", ".join(f"{key} = {value}" for key, value in items.items()) + "}"
    )
    collections = st.one_of(lists, maps, st.sampled_from(KNOWN))
    condition = st.one_of(st.just(""), inner.map(" if {}".format))
    return st.one_of(
        lists,
        maps,
        st.builds("{}({})".format, st.sampled_from(CALLED), several),
        st.builds("{}({}...)".format, st.sampled_from(CALLED), lists),
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner),
        st.builds("{}{}".format, st.sampled_from(("-", "!")), inner.map("({})".format)),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("{}[{}]".format, collections, inner),
        st.builds("{}.{}".format, collections, NAMES),
        st.builds("[for v in {} : {}{}]".format, collections, st.just("v") | inner, condition),
        st.builds("[for k, v in {} : {}]".format, collections, st.sampled_from(("k", "[k, v]"))),
        st.builds("{{for k, v in {} : {} => v{}}}".format, collections, st.just("k") | inner, condition),
        st.builds("{{for k, v in {} : {} => v...}}".format, collections, inner),
        st.builds('"x${{{}}}-${{{}}}"'.format, inner, inner),
        inner.map('"${{{}}}"'.format),
        collections.map("{}[*]".format),
    )


def expressions(*more: str) -> st.SearchStrategy[str]:
    """`more`: other names that an expression may contain, such as those of unknown values."""
    return st.recursive(SIMPLE | st.sampled_from((*KNOWN, *more)), _inside, max_leaves=8)
