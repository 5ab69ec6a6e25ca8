"""Draw and judge programs for as long as asked: ``python tests/trust/soak.py --minutes 30 --seed 1 --backend dask``.

Prints what was drawn and every failure, shrunk, as a program that can be pasted into a test; exits with 1 if there is
one. See `programs`. With ``--stateful`` it draws functions with state and compiles them: see `stateful`. With
``--executor native`` programs are judged as machine code alone, and functions with state become that.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import stateful
from programs import ON_NUMPY, drawn, judge, shrunk, traits


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first program; the next has the next")
    parser.add_argument("--backend", choices=["numpy", "dask"], default="numpy")
    parser.add_argument("--stateful", action="store_true", help="functions with state, compiled and as they are")
    parser.add_argument("--executor", choices=["native"], default=None, help="by which programs run")
    options = parser.parse_args()
    first = secrets.randbelow(10**6) if options.seed is None else options.seed
    if options.stateful:
        print(f"seed {first}, {options.minutes:g} minutes, functions with state", flush=True)
        if options.executor:
            stateful.OPTIONS.update(stateful.NATIVE)
        return 1 if stateful.soak(first, options.minutes) else 0
    on_dask = options.backend == "dask"
    judges = ("dask",) if on_dask else (options.executor,) if options.executor else ON_NUMPY
    print(f"seed {first}, {options.minutes:g} minutes, {options.executor or options.backend}", flush=True)
    tally, found, seed = Counter(), Counter(), first
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        program = drawn(seed, judges, 20 if on_dask else 40)
        found.update(traits(program))
        try:
            judge(program, tally)
        except Exception as error:  # noqa: BLE001 (whatever agrad raises is a failure)
            tally["failures"] += 1
            print(f"\nFAILED (seed {seed}):\njudge({shrunk(program)!r})")
            print("".join(traceback.format_exception(error, limit=-6)), flush=True)
        seed += 1
    print(f"\nseeds {first} to {seed - 1}: {tally['programs']} programs, {tally['judged']} judged,", end=" ")
    print(f"{tally['unjudged']} not (a kink is near, or too steep), {tally['failures']} failures")
    for name in sorted(set(tally) - {"programs", "judged", "unjudged", "failures"}):
        print(f"  {name}: {tally[name]}")
    print("programs with: " + ", ".join(f"{name} {found[name]}" for name in sorted(found)))
    return 1 if tally["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
