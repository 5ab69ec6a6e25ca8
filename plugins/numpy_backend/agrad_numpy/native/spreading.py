"""Large loops on several threads: their division, which only depends on their size, and LLVM's text for starting threads."""

from __future__ import annotations

import ctypes
import functools

#: Loops over fewer elements stay on one thread: starting another one takes some 20 microseconds.
SPREAD_FROM = 2**19

#: The approximate number of elements in a part.
PART = 2**16

#: Runs the parts of a loop: system threads, each of which takes the next part until there is none. It waits for all.
TEXT = """
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
define internal ptr @spread.work(ptr %job) {
  %part.at = getelementptr i64, ptr %job, i64 1
  %part = load ptr, ptr %job
  %slots.at = getelementptr i64, ptr %job, i64 2
  %slots = load ptr, ptr %slots.at
  %args.at = getelementptr i64, ptr %job, i64 3
  %args = load ptr, ptr %args.at
  %room.at = getelementptr i64, ptr %job, i64 4
  %room = load ptr, ptr %room.at
  %count.at = getelementptr i64, ptr %job, i64 5
  %count = load i64, ptr %count.at
  br label %next
next:
  %k = atomicrmw add ptr %part.at, i64 1 monotonic
  %more = icmp slt i64 %k, %count
  br i1 %more, label %run, label %done
run:
  call void %part(ptr %slots, ptr %args, ptr %room, i64 %k)
  br label %next
done:
  ret ptr null
}
define internal void @spread(ptr %part, ptr %slots, ptr %args, ptr %room, i64 %count, i64 %threads) {
  %job = alloca [6 x i64], align 8
  %handles = alloca i64, i64 %threads, align 8
  store ptr %part, ptr %job
  %next.at = getelementptr i64, ptr %job, i64 1
  store i64 0, ptr %next.at
  %slots.at = getelementptr i64, ptr %job, i64 2
  store ptr %slots, ptr %slots.at
  %args.at = getelementptr i64, ptr %job, i64 3
  store ptr %args, ptr %args.at
  %room.at = getelementptr i64, ptr %job, i64 4
  store ptr %room, ptr %room.at
  %count.at = getelementptr i64, ptr %job, i64 5
  store i64 %count, ptr %count.at
  br label %start
start:
  %made = phi i64 [1, %0], [%made.next, %started]
  %starts = icmp slt i64 %made, %threads
  br i1 %starts, label %create, label %work
create:
  %handle = getelementptr i64, ptr %handles, i64 %made
  %failed = call i32 @pthread_create(ptr %handle, ptr null, ptr @spread.work, ptr %job)
  %is.made = icmp eq i32 %failed, 0
  br i1 %is.made, label %started, label %work
started:
  %made.next = add i64 %made, 1
  br label %start
work:  ; where no thread more is to be had, those that are there do everything
  %all = phi i64 [%made, %start], [%made, %create]
  %nothing = call ptr @spread.work(ptr %job)
  br label %wait
wait:
  %i = phi i64 [1, %work], [%i.next, %join]
  %waits = icmp slt i64 %i, %all
  br i1 %waits, label %join, label %end
join:
  %joined.at = getelementptr i64, ptr %handles, i64 %i
  %joined = load i64, ptr %joined.at
  %result = call i32 @pthread_join(i64 %joined, ptr null)
  %i.next = add i64 %i, 1
  br label %wait
end:
  ret void
}
"""


@functools.cache
def available() -> bool:
    """Return whether the system's threads are found by name."""
    try:
        return hasattr(ctypes.CDLL(None), "pthread_create")
    except (OSError, TypeError):  # Windows has no such library
        return False


def halves(start: int, count: int) -> list[tuple[int, int]]:
    """Return the parts of a row that is summed in halves, as NumPy does: beginnings and lengths."""
    if count <= PART:
        return [(start, count)]
    first = (count >> 1) & -8
    return [*halves(start, first), *halves(start + first, count - first)]
