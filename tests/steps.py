"""Steps that tests hand to workers: here, so that a worker imports nothing else for them."""

import os
import signal
import time


def note(path, number, seconds=0.0, die=False):
    """Leave in a file which process began this step, and which has ended it."""
    with open(path, "a") as file:
        file.write(f"begin {number} {os.getpid()}\n")
    if die:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)
    with open(path, "a") as file:
        file.write(f"end {number} {os.getpid()}\n")
    return {"number": number}


# -- steps on row blocks ---------------------------------------------------------------------------


def look(block, number=1.0):
    """What a block holds, in few numbers."""
    labels = [str(label) for label in block.y]
    weight = None if block.sample_weight is None else float(block.sample_weight.sum())
    total = float(block.X.sum()) * number
    return block.start, block.X.shape, total, labels.count(labels[0]), labels[0], weight


def begin(block, number):
    """Keep an array of one entry a row, and a number."""
    block.allocate("sums", block.X.shape[:1])[:] = block.X[:, 0] + number
    block.allocate("codes", block.X.shape, "u1")[:] = 1
    block.count = 0


def add(block, number):
    """Change both."""
    block.sums *= 1.5
    block.sums += number
    block.count += 1
    return float(block.sums.sum()), block.count


def add_nothing(block):
    """A change that changes nothing."""


def jump(block, number, count):
    """Keep at once what `begin(number)` and so many times `add(number)` keep."""
    begin(block, number)
    for _ in range(count):
        add(block, number)
    block.jumped = True


def kept(block):
    """What has been kept."""
    return block.sums.tolist(), block.count, int(block.codes.sum()), hasattr(block, "jumped")


def slow(block, path, seconds=0.0, die=False):
    """Leave a note for the block, and take some time."""
    return note(path, block.start, seconds, die)["number"], os.getpid()


def refuse(block, least):
    """Raise an error for the blocks from a row on."""
    if block.start >= least:
        raise ValueError(f"the block from row {block.start} on is refused")


def mapped(block):
    """Whether arrays of the block and kept ones are mapped files, and may be written."""
    arrays = [block.X, block.y, block.allocate("some", block.X.shape)]
    return [(type(array.base).__name__, array.flags.writeable) for array in arrays]
