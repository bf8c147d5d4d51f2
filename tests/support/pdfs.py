"""Small PDFs for tests, made by hand; some as nobody honest would make them."""

import zlib
from collections.abc import Sequence


def pdf(*pages: str, kids: str = "", trailer: str = "") -> bytes:
    """Return a PDF with these texts on its pages, a line each.

    `kids` is what its list of pages is instead, `trailer` what else its trailer holds.
    """
    contents = [_page_text(text) for text in pages]
    return of_contents(contents, kids=kids, trailer=trailer)


def of_contents(contents: Sequence[bytes], *, kids: str = "", trailer: str = "") -> bytes:
    """Return a PDF whose pages have these contents, packed."""
    numbers = [4 + 2 * number for number in range(len(contents))]
    listed = kids or " ".join(f"{number} 0 R" for number in numbers)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{listed}]/Count {len(contents)}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for number, content in zip(numbers, contents, strict=True):
        packed = zlib.compress(content, 9)
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {number + 1} 0 R"
            "/Resources<</Font<</F1 3 0 R>>>>>>".encode()
        )
        head = f"<</Length {len(packed)}/Filter/FlateDecode>>stream\n".encode()
        objects.append(head + packed + b"\nendstream")
    whole = b"%PDF-1.7\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(whole))
        whole += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(whole)
    whole += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    whole += b"".join(b"%010d 00000 n \n" % place for place in places)
    ending = f"trailer\n<</Size {len(objects) + 1}/Root 1 0 R{trailer}>>\nstartxref\n{start}\n%%EOF"
    return whole + ending.encode()


def _page_text(text: str) -> bytes:
    shown = [f"({line}) Tj 0 -14 Td" for line in text.splitlines()]
    return "\n".join(["BT /F1 12 Tf 72 720 Td", *shown, "ET"]).encode("cp1252")
