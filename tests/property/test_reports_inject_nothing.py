"""Whatever a plan, a name or an error says: Markdown and workflow commands stay ours."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from html.parser import HTMLParser

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from holdfast.notify.action_items import is_own_code
from holdfast.notify.commands import output_lines, outputs_of, report_annotations
from holdfast.notify.hosts.azure import AZURE
from holdfast.notify.hosts.catalogue import HOSTS
from holdfast.notify.hosts.github import GITHUB
from holdfast.notify.hosts.interface import Annotation, CodeHost
from holdfast.notify.markdown import markdown
from holdfast.notify.report import ChangeReport, Risk, Rule, StackReport, Trouble
from holdfast.system.markup import command, escape_commands, one_line, prose, visible

COMMENT = GITHUB.budget
PIECES = [
    "`", "``", "```", "~~~", "|", "\\|", "\\", "\n", "\n\n", "\r", "\r\n", "\t", "    ", " ", "\u2028",
    "\x85", "<img src=x onerror=a>", "</code>", "</summary></details>", "<details>", "<!--", "-->",
    "<script>", "&lt;", "@everyone", "@acme/admins", "#1", "GH-1", "a@b.example", "https://evil.example/x",
    "www.evil.example", "[a](https://evil.example)", "![a](https://evil.example/a.png)", "[a]: https://evil.example",
    "<https://x.y>", "**", "_", "# ", "- ", "1. ", "> ", "---", "===", "$$", ":tada:", "[^1]", "[x]",
    "##vso[task.complete]", "/close", "!1", "~l", "%m", "&1",
    "::", "::error::", "::add-mask::", "::set-output name=a::b", "##[", "##[add-mask]", "]", "%", "%0A",
    "%25", ",", "\x1b[2J", "\x1b]0;t\x07", "\x00", "\x08", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff",
    "\u00ad", "\u3164", "\ud800", "é", "山", "🦊",
]  # fmt: skip
pieces = st.sampled_from(PIECES) | st.text(st.characters(), max_size=6)
texts = st.lists(pieces, min_size=1, max_size=14).map("".join).filter(bool)
codes = texts.filter(lambda text: not is_own_code(text))
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


class _Tags(HTMLParser):
    """The tags of a piece of HTML, and the text outside `code`."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(f"<{tag}{attrs or ''}>")

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1] != "<code>":
            self.found.append(data)


def tags(html: str) -> list[str]:
    reader = _Tags()
    reader.feed(html)
    reader.close()
    return reader.found


def structure(tokens: list[Token]) -> list[object]:
    """All that a reader makes of a text; a sentence counts as one, whether its words are text or code."""
    found: list[object] = []
    for token in tokens:
        if token.type in {"text", "code_inline"}:
            if found[-1:] != ["words"]:
                found.append("words")
        elif token.type == "fence":
            found.append((token.type, token.info))
        elif token.type in {"html_block", "html_inline"}:
            found.append((token.type, tags(token.content)))
        elif token.type == "inline":
            found.append(structure(token.children or []))
        else:
            found.append((token.type, token.tag, token.content, tuple(token.attrs or ())))
    return found


MEANS_SOMETHING = re.compile(
    r"@|#\d|GH-\d|://|www\.|[\[\]<>~$|*_`{}]|[!&%$^]\w|:[\w+-]+:|\w/\w|(?=\w*\d)(?=\w*[a-f])\b[0-9a-f]{7,40}\b"
)
"""What a code host makes a mention, a reference, a link, a label or a picture of, if it stands in text."""


def texts_in(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "text":
            yield token.content
        yield from texts_in(token.children or [])


def report(name: str, environment: str, status: str, code: str, text: str, hint: str) -> ChangeReport:
    stack = StackReport(
        name=f"{name}1",
        status=status,
        environment=environment,
        production=True,
        decision="deny",
        counts={"delete": 2},
        risks=(Risk(address=text, what=hint), Risk(address="fixed", what=text)),
        rules=(
            Rule(code=code, message=text, rule=hint),
            Rule(code="HF-GUARD-1", message=hint, address="fixed", rule=text),
        ),
        troubles=(Trouble(code=code, message=text, hint=hint, file=text, line=3),),
        notes=(text,),
        remains=(hint,),
        diff=(f"- {text}", f"+ {hint}", text),
        diff_cut=True,
        digest=text,
        run=hint,
    )
    again = StackReport(name=f"{hint}2", status="refused", decision="deny", digest=hint, diff=(hint,))
    waiting = StackReport(name="w", status="waiting", decision="approval", run=text)
    stacks = sorted((stack, again, waiting), key=lambda one: one.status)
    trouble = Trouble(code=code, message=hint, hint=text, file=hint)
    return ChangeReport(operation="plan", headline=f"- {text}", stacks=tuple(stacks), troubles=(trouble,))


@given(texts, texts, codes, texts, texts)
@example("a", "b", "c", "x`" * 40 + "<b>", "`" * 100 + "\n\n<img src=x>")
@example("``|`", "`", "`a", "</code></summary></details>\n\n# big", "``` \n```\n@everyone")
def test_markdown_is_read_as_if_the_texts_were_harmless(
    name: str, environment: str, code: str, text: str, hint: str
) -> None:
    """No text makes a mention, a tag, a link, an image, a heading, a row, or the end of anything."""
    shown = markdown(report(name, environment, "failed", code, text, hint), COMMENT)
    found = READER.parse(shown)
    meant = READER.parse(markdown(report("x1", "x2", "failed", "x3", "x4", "x5"), COMMENT))
    assert structure(found) == structure(meant)
    assert not [one for one in texts_in(found) if MEANS_SOMETHING.search(one)]
    assert not [line for line in shown.split("\n") if line.startswith("/")]


@given(texts)
def test_a_sentence_is_words_and_code_and_nothing_else(text: str) -> None:
    """Also at the beginning of a list item, of a heading and of a quote; and no letter of it is lost."""
    shown: list[Token] = []
    for begin in ("- ", "## ", "> ", ""):
        tokens = READER.parse(f"{begin}x\n\n{begin}{prose(text)}")
        plain = READER.parse(f"{begin}x\n\n{begin}x")
        assert structure(tokens) == structure(plain)
        shown = [inline for token in tokens for inline in token.children or []][1:]
        assert not [one for one in shown if one.type == "text" and MEANS_SOMETHING.search(one.content)]
    said = "".join(inline.content for inline in shown).replace("(empty)", "")
    if one_line(text):
        assert re.sub(r"[\s`\u2013-]", "", said) == re.sub(r"[\s`\u2013-]", "", one_line(text))


@given(texts)
def test_a_status_that_is_none_is_code(status: str) -> None:
    """Even words that come from ourselves are not believed."""
    one = ChangeReport(operation="plan", headline="", stacks=(StackReport(name="x", status=f"?{status}"),))
    two = ChangeReport(operation="plan", headline="", stacks=(StackReport(name="x", status="?"),))
    assert structure(READER.parse(markdown(one))) == structure(READER.parse(markdown(two)))


@given(texts)
def test_nothing_is_hidden(text: str) -> None:
    """What is shown has no control, format or other character that does not show, whatever went in."""
    for shown in (visible(text), one_line(text), *markdown(report(*[text] * 6), COMMENT).split("\n")):
        assert shown.isprintable()
        shown.encode()


def as_the_runner_reads(output: str) -> list[str]:
    """Lines as the runner splits them, without what its comparison of texts ignores."""
    ignored = {char for char in output if unicodedata.category(char) in {"Cf", "Cc"} and char not in "\n\r\t"}
    kept = "".join(char for char in output if char not in ignored)
    return re.split(r"\r\n|\r|\n", kept)


def is_command(line: str) -> bool:
    return line.lstrip().startswith("::") or "##[" in line or "##vso[" in line.lower()


@given(texts)
def test_no_line_of_output_is_a_command(text: str) -> None:
    """Printed in GitHub Actions, no text is taken for a command, old style or new."""
    assert not any(map(is_command, as_the_runner_reads(escape_commands(text))))


COMMAND = re.compile(r"::(error|warning)( [a-z]+=[^,:]*(?:,[a-z]+=[^,:]*)*)?::(.*)\Z")


def unescaped(text: str) -> str:
    for number, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(number, char)
    return text


def harmless(text: str) -> str:
    return re.sub(r"##(?=(vso)?\[)", "## ", text, flags=re.IGNORECASE)


@given(texts, texts, texts)
def test_an_annotation_is_one_line_that_says_what_was_meant(title: str, file: str, text: str) -> None:
    """No property ends early, none is added, and what the runner unescapes is what was said."""
    (line,) = as_the_runner_reads(command("error", text, title=title, file=file, line=3))
    found = COMMAND.match(line)
    assert found is not None
    properties = dict(pair.split("=", 1) for pair in found[2].strip().split(","))
    assert list(properties) == ["title", "file", "line"]
    assert unescaped(properties["title"]) == harmless(one_line(title))
    shown = [visible(part.replace("\t", "    ")) for part in re.split(r"\r\n|\r|\n", text)]
    assert unescaped(found[3]) == harmless("\n".join(shown))


@given(texts, texts, codes)
def test_annotations_are_all_ours(name: str, text: str, code: str) -> None:
    """Every line of them is an error or a warning, and there are never more than GitHub shows."""
    assert GITHUB.annotation is not None
    given = report_annotations(report(name, text, "failed", code, text, text), prefix=text)
    lines = [GITHUB.annotation(one) for one in given]
    assert all(COMMAND.match(line) for line in lines)
    assert 0 < len(lines) <= 20


@given(texts, st.sampled_from(HOSTS))
def test_a_title_begins_one_fold(title: str, host: CodeHost) -> None:
    """One line, and no command but ours, whatever the title says; no escape code that GitLab would read."""
    begin, end = host.fold(title, "ab" * 16)
    for line in (*begin, *end):
        assert len(as_the_runner_reads(line.text)) == 1
        assert "\x1b" not in line.text
    rest = begin[0].text.removeprefix("::group::").removeprefix("##[group]")
    assert host.name == "gitlab" or not is_command(f"x{rest}")


@given(texts, texts, texts)
def test_an_annotation_of_azure_is_one_command(title: str, file: str, text: str) -> None:
    """Its properties end where they should, and nothing after them is another command."""
    assert AZURE.annotation is not None
    line = AZURE.annotation(Annotation(level="error", title=title, message=text, file=file, line=3))
    (whole,) = as_the_runner_reads(line)
    found = re.match(r"##vso\[task\.logissue type=error;sourcepath=[^;\]]*;linenumber=3\](.*)\Z", whole)
    assert found is not None
    assert "##vso[" not in found[1].lower()
    assert "##[" not in found[1]


@given(texts, texts)
def test_outputs_are_read_back_as_they_were_meant(name: str, text: str) -> None:
    """No value ends its own text or sets another output."""
    outputs = outputs_of(report(name, text, "refused", "x", text, text), exit_code=3)
    written = output_lines(outputs, "cd" * 16)
    found: dict[str, str] = {}
    lines = iter(written.split("\n"))
    for line in lines:
        if line:
            key, end = line.split("<<")
            value = []
            while (more := next(lines)) != end:
                value.append(more)
            found[key] = "\n".join(value)
    assert found == outputs
    assert found["verdict"] == "failed"
