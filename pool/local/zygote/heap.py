"""Fills the holes in the heap of the zygote, so that its forks leave it alone.

Importing leaves small holes all over the heap. A program's first objects would
be put into them, one here and one there, and each would cost its sandbox a copy
of the page around it. With the holes filled, they stand side by side.
"""

STEP, LARGEST = 16, 512  # the sizes that the interpreter's own allocator serves
HEADER = 33  # of a bytes object, which has no reference to follow
RUN = 4096  # so many bytes in a row, at the least, come from a fresh place
MOST = 4 << 20  # bytes of each size: a heap that has no end of holes is left alone


def fill():
    """Returns what the holes were filled with, to be kept."""
    kept = []
    for size in range(3 * STEP, LARGEST + 1, STEP):
        _fill(kept, lambda: bytes(size - HEADER), size)
    _fill(kept, object, STEP)
    # Numbers, the size of those that are used to count them here.
    _fill(kept, lambda: id(kept) + len(kept), 2 * STEP, between=4)
    return kept


def _fill(kept, make, size, between=1):
    """Makes objects of one size until they come one after the other.

    There may be others of that size between two of them.
    """
    row, last = 0, 0
    for _ in range(MOST // size):
        made = make()
        kept.append(made)
        row = row + size if 0 < id(made) - last <= between * size else 0
        last = id(made)
        if row >= RUN:
            return
