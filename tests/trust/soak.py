"""Draw and judge programs for as long as asked: ``python tests/trust/soak.py --minutes 30 --seed 1 --backend dask``.

Prints what was drawn and every failure, shrunk, as a program that can be pasted into a test; exits with 1 if there is
one. See `programs`.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parent))

from programs import JUDGES, judge, programs, shrunk, traits

#: So many programs are drawn from one seed.
BATCH = 100


def run_batch(number, judges, longest, end, tally):
    """Draw from one seed until the end; give None, or a program that failed, and its error."""
    failed = []

    @seed(number)
    @settings(
        max_examples=BATCH,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate],  # `shrunk` is quicker
        suppress_health_check=list(HealthCheck),
    )
    @given(programs(judges, longest))
    def run(program):
        if failed or time.monotonic() > end:
            return
        tally.update(traits(program))
        try:
            judge(program, tally)
        except Exception:
            failed[:] = [program]
            raise

    try:
        run()
    except Exception as error:  # noqa: BLE001 (whatever agrad raises is a failure)
        return failed[0], error
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--backend", choices=["numpy", "dask"], default="numpy")
    options = parser.parse_args()
    first = secrets.randbelow(10**6) if options.seed is None else options.seed
    on_dask = options.backend == "dask"
    judges = ("dask",) if on_dask else tuple(name for name in JUDGES if name != "dask")
    print(f"seed {first}, {options.minutes:g} minutes, {options.backend}", flush=True)
    tally, failures = Counter(), 0
    end, number = time.monotonic() + 60 * options.minutes, first
    while time.monotonic() < end:
        found = run_batch(number, judges, 20 if on_dask else 40, end, tally)
        if found is not None:
            failures += 1
            program, error = found
            print(f"\nFAILED (seed {number}):\njudge({shrunk(program)!r})")
            print("".join(traceback.format_exception(error, limit=-6)), flush=True)
        number += 1
    print(f"\nseeds {first} to {number - 1}: {tally['programs']} programs, {tally['judged']} judged,", end=" ")
    print(f"{tally['unjudged']} not (a kink is near, or too steep), {failures} failures")
    for name in sorted(tally):
        if name not in {"programs", "judged", "unjudged"}:
            print(f"  {name}: {tally[name]}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
