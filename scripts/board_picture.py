"""Take the picture of a board in the browser, docs/board.png.

    PYTHONPATH=. python scripts/board_picture.py

Needs chromium, like the tests of the page.
"""

from pathlib import Path
from random import Random

from tests.http.browser import Boards, is_live, launched, order
from tests.serving import Served

import laurels

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "board.png"
NOON_MS = 1_795_262_400_000  # 2026-11-21 12:00 UTC
DAY_MS = 86_400_000
LEADERS = [
    "amara",
    "noor",
    "kenji",
    "lucía",
    "tomasz",
    "priya",
    "oluwaseun",
    "ingrid",
    "mateo",
    "yuki",
]
PRIZES = {
    "list": [
        {"name": "Gold", "ranks": [1, 1], "amount": "500.00", "scale": 2},
        {"name": "Podium", "ranks": [2, 3], "amount": "100.00", "scale": 2},
    ]
}
WINDOWS = ["all", "month", {"type": "day", "prizes": PRIZES}, "7d=rolling:7d/1h"]


def main() -> None:
    clock = laurels.ManualClock(NOON_MS - DAY_MS)
    random = Random(1)
    with Served("memory:", clock) as served, launched() as browser:
        boards = Boards(served.url)
        board = boards.made([], title="Gifts of the season", windows=WINDOWS)
        crowd = [(f"m{number}", random.randint(1, 22_000)) for number in range(1_242)]
        for now_ms in (NOON_MS - DAY_MS, NOON_MS):
            clock.advance(now_ms - clock.now_ms())
            boards.score(board, *crowd)
            scores = [23_943 - 160 * place for place in range(len(LEADERS))]
            boards.score(board, *zip(LEADERS, scores, strict=True))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(boards.address(board, window="day"))
        is_live(page)
        order(page).to_contain_text(["amara", "noor", "kenji"])
        boards.score(board, ("kenji", 400))
        order(page).to_contain_text(["kenji", "amara", "noor"])
        page.wait_for_timeout(700)  # wait until the rows have moved
        page.screenshot(path=str(PICTURE))


if __name__ == "__main__":
    main()
