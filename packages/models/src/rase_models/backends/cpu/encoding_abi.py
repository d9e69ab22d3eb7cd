"""The words of one text, which come first in what a kernel that writes ids is given; its settings follow.

All are int64, the names are byte offsets.
"""

TEXT = 0
"""Address of the units of the text."""
LENGTH = 8
IDS = 16
"""Address of the int32 ids to write."""
MEMORY = 24
"""Address of memory to work in, aligned to 8."""
WRITTEN = 32
"""How many ids were written; negative where no token stands for a part of the text."""
