"""Generated requests get only answers that the description of the service declares."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Scaled
from tests.http.fuzz import KEY, Fuzz
from tests.serving import Served


def test_every_operation_answers_as_its_description_says(tmp_path: Path, scaled: Scaled) -> None:
    with Served(tmp_path / "boards", admin_key=KEY) as server:
        fuzz = Fuzz(server.url)
        operations = list(fuzz.operations())
        assert len(operations) > 25
        for operation in operations:
            fuzz.run(operation, number=20_261_120, examples=scaled(2, 400))
        succeeded = {label for label, status in fuzz.statuses if status < 300}
        assert len(succeeded) > 20, "most operations must get requests that succeed"
