"""Configures the allocator once, when imported.

glibc maps blocks beyond a threshold anew at every allocation, and returns the free end of a heap to the system when it
is twice as long. The threshold, 128 KiB at first, grows to the largest block that was ever freed, 32 MiB at most. Until
then every step of a program faults its pages in anew: half the time of elementwise work on 100,000 numbers, a fifth of
a transformer's. So a block of the largest size that it considers is freed at once; its pages are never touched. Other
allocators are not affected.
"""

from __future__ import annotations

bytes(2**25 - 2**16)
