"""What the allocator is told, once, when this is imported.

glibc maps blocks beyond a threshold anew at every allocation, and gives the free end of a heap back to the system when
it is twice as long. The threshold, 128 KiB at first, grows to the largest block that was ever freed, 32 MiB at most. Until
then every step of a program faults its pages in anew: half the time of elementwise work on 100,000 numbers, a fifth of
a transformer's. So let it see the largest that it looks at; these pages are never touched. No other allocator minds.
"""

from __future__ import annotations

bytes(2**25 - 2**16)
