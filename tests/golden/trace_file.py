"""The file of the trace: one line of JSON per step, and the complete answers of some steps."""

from __future__ import annotations

from pathlib import Path

import msgspec

import laurels
from tests.golden.trace import EVENTS, START_MS, Player, Step

STEPS_FILE = Path(__file__).parent / "trace.jsonl"
ANSWERS_FILE = Path(__file__).parent / "trace-answers.json"
FULL_EVERY = 400
"""If the number of a step is a multiple of this, the file has the complete answers of the step.
People read them when a digest differs."""


def recorded() -> list[Step]:
    """Read the recorded steps."""
    return msgspec.json.Decoder(Step).decode_lines(STEPS_FILE.read_bytes())


def write() -> None:
    """Play the whole history in memory and record it."""
    clock = laurels.ManualClock(START_MS)
    steps: list[Step] = []
    answers: dict[str, object] = {}
    with laurels.open("memory:", clock=clock) as lb:
        player = Player(lb, clock)
        for number, step in enumerate(player.play(EVENTS)):
            steps.append(step)
            if number % FULL_EVERY == 0:
                answers[str(number)] = player.answers
    STEPS_FILE.write_bytes(msgspec.json.Encoder().encode_lines(steps))
    ANSWERS_FILE.write_bytes(msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n")
