"""The long run: `python -m tests.stateful.long --steps 100000 --seed 1`.

It goes through every combination of columns, operators, orders, tie rules and rank styles, in
episodes of random steps. If the answers differ, it prints the seed that reproduces the difference.
The last line is a summary. The exit code is 1 if there was a difference.
"""

from __future__ import annotations

import sys
import time
import traceback
from argparse import ArgumentParser
from itertools import count
from random import Random

from tests.stateful.choices import COMBINATIONS
from tests.stateful.episode import run
from tests.stateful.world import Combination


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--episode", type=int, default=150, help="steps in an episode")
    parser.add_argument("--only", type=int, help="run only the episode with this seed")
    options = parser.parse_args()
    if options.only is not None:
        run(options.only, combinations_of(options.only), options.episode)
        return 0
    return long_run(options.steps, options.seed, options.episode)


def long_run(steps: int, seed: int, episode: int) -> int:
    """Run episodes until the steps are done. Return 1 if there was a difference, else 0."""
    began = time.monotonic()
    done = rankings = differences = episodes = 0
    for i in count(seed * len(COMBINATIONS)):
        if done >= steps or differences >= 10:
            break
        episodes += 1
        try:
            tally = run(i, combinations_of(i), min(episode, steps - done))
        except Exception:
            differences += 1
            done += episode
            print(f"difference: --only {i} --episode {episode}\n{traceback.format_exc()}")
        else:
            done += tally.steps
            rankings += tally.rankings
        if sys.stderr.isatty():
            print(f"\r{done:,} steps", end="", file=sys.stderr)
    print(
        f"seed {seed}: {done:,} steps in {episodes:,} episodes over {len(COMBINATIONS)} "
        f"combinations, {rankings:,} rankings compared, {differences} differences, "
        f"{time.monotonic() - began:,.0f} s"
    )
    return 1 if differences else 0


def combinations_of(seed: int) -> list[Combination]:
    """Return the combination for this seed. Sometimes add a second combination for another
    board."""
    rng = Random(seed)
    chosen = [COMBINATIONS[seed % len(COMBINATIONS)]]
    return [*chosen, rng.choice(COMBINATIONS)] if rng.random() < 0.2 else chosen


if __name__ == "__main__":
    sys.exit(main())
