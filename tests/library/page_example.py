"""docs/library/library.md shows the files of docs/library/example as they are: page_example.py DOCS/library."""

import pathlib
import sys

docs = pathlib.Path(sys.argv[1])
page = (docs / "library.md").read_text(encoding="utf-8")
for name, language in [("CMakeLists.txt", "cmake"), ("example.cpp", "cpp")]:
    text = (docs / "example" / name).read_text(encoding="utf-8")
    assert f"```{language}\n{text}```\n" in page, f"{name}: the page shows something else"
