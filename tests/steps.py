"""Functions that tests send to workers; a worker imports nothing else for them."""

import os
import signal
import time


def note(path, number, seconds=0.0, die=False):
    """Append to a file the process that begins this function, and that ends it."""
    with open(path, "a") as file:
        file.write(f"begin {number} {os.getpid()}\n")
    time.sleep(seconds)
    if die:
        os.kill(os.getpid(), signal.SIGKILL)
    with open(path, "a") as file:
        file.write(f"end {number} {os.getpid()}\n")
    return {"number": number}


# -- block functions -------------------------------------------------------------------------------
def look(block, number=1.0):
    """Start, shape, sum, and first label of a block, and its weight."""
    labels = [str(label) for label in block.y]
    weight = None if block.sample_weight is None else float(block.sample_weight.sum())
    total = float(block.X.sum()) * number
    return block.start, block.X.shape, total, labels.count(labels[0]), labels[0], weight


def begin(block, number):
    """Attach an array (n,), one of bytes and a number."""
    block.allocate("sums", block.X.shape[:1])[:] = block.X[:, 0] + number
    block.allocate("codes", block.X.shape, "u1")[:] = 1
    block.count = 0


def add(block, number):
    """Change the array and the number."""
    block.sums *= 1.5
    block.sums += number
    block.count += 1
    return float(block.sums.sum()), block.count


def stored(block):
    """Arrays and number that are attached."""
    return block.sums.tolist(), block.count, int(block.codes.sum())


def slow(block, path, seconds=0.0, die=False):
    """Append a note on the block, and take time."""
    return note(path, block.start, seconds, die)["number"], os.getpid()


def refuse(block, least):
    """Raise an error for the blocks from row `least` on."""
    if block.start >= least:
        raise ValueError(f"the block from row {block.start} on is refused")


def mapped(block):
    """Kind of the memory of X, y and an attached array, and True if it may be written."""
    arrays = [block.X, block.y, block.allocate("some", block.X.shape)]
    return [(type(array.base).__name__, array.flags.writeable) for array in arrays]


def labels(block):
    return block.y.tolist()
