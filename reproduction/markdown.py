"""The same sections as a page of Markdown, for documents that are read as text."""

from collections.abc import Iterator, Sequence

from vbsvm.report.document import Check, Code, Figures, Limitation, Picture, Section, Table, Text


def markdown(sections: Sequence[Section], images: dict[str, str]) -> str:
    """Sections with headings of the second level; ``images`` are the paths of figures, by caption."""
    return "\n\n".join(line for section in sections for line in _section(section, images)) + "\n"


def _section(section: Section, images: dict[str, str]) -> Iterator[str]:
    yield f"## {section.title}"
    for block in section.blocks:
        if isinstance(block, Text | Code | Check):
            yield block.text
        elif isinstance(block, Limitation):
            yield f"**{block.title}** {block.text}"
        elif isinstance(block, Figures):
            yield "; ".join(f"{value} {meaning}" for value, meaning in block.pairs)
        elif isinstance(block, Picture):
            yield f"![{block.caption}]({images[block.caption]})"
        else:
            yield _table(block)


def _table(table: Table) -> str:
    lines = [table.head, ["---"] * len(table.head), *([one.text for one in row] for row in table.rows)]
    shown = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{table.caption}:\n\n{shown}"
