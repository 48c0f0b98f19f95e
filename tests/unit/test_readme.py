"""The pages for users are correct: each example prints the output that the page shows, and the
target of each link exists."""

import re
from pathlib import Path

import pytest
from scripts.tour import PAGES, ROOT, true_page

WRONG = """\
```python
print(6 * 7)
```

```pycon
>>> for n in range(2):
...     print(n)
...
0
>>> 1 / 0
ZeroDivisionError: ... zero
>>> [].pop()
```

```console
$ echo one
two
```
"""
RIGHT = """\
```python
print(6 * 7)
```

```text
42
```

```pycon
>>> for n in range(2):
...     print(n)
...
0
1
>>> 1 / 0
ZeroDivisionError: ... zero
>>> [].pop()
IndexError: pop from empty list
```

```console
$ echo one
one
```
"""


def _slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub forms it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    return {_slug(heading) for heading in re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text("utf-8")
    assert true_page(text, tmp_path) == text, "run python scripts/tour.py"


def test_outputs_that_do_not_agree_are_replaced(tmp_path: Path) -> None:
    assert true_page(WRONG, tmp_path) == RIGHT
    assert true_page(RIGHT, tmp_path) == RIGHT


def test_an_excerpt_that_does_not_agree_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="make run"):
        true_page("```console\n$ make run\nnothing\n```\n", tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_existing_targets(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    assert links
    for link in links:
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert target.resolve().is_relative_to(ROOT.resolve()), link
        assert not anchor or anchor in _anchors(target), link


def test_every_decision_has_its_status_in_the_list() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text("utf-8")
    rows = []
    for page in sorted(folder.glob("0*.md")):
        number, title, status = re.findall(
            r"\A# (\d+)\. (.+)\n\n\*Status: ((?s:.+?))\.\*\n", page.read_text("utf-8")
        )[0]
        rows.append(f"| {number} | [{title}]({page.name}) | {' '.join(status.split())} |")
    assert listed.endswith("\n".join(rows) + "\n")
