"""The table of normalisation in a SentencePiece model, as far as words need to know it.

The table (``precompiled_charsmap``) is the size of an automaton in bytes, the automaton, and what sequences become. The
automaton is a double array of Darts-clone: a unit of 32 bits for each node, whose child by a byte is at the node's own place,
its offset and the byte, joined by exclusive or. Sequences are in UTF-8.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_BYTES = np.arange(1, 0x100)
_CONTINUING = np.arange(0x80, 0xC0)


def joining_characters(charsmap: bytes) -> set[str]:
    """The characters that some sequence of the table holds behind another one: whatever else is read as it is alone."""
    if not charsmap:
        return set()
    units = np.frombuffer(charsmap, "<u4", int.from_bytes(charsmap[:4], "little") // 4, offset=4).astype(np.int64)
    joining: set[str] = set()
    seen = np.zeros(len(units), dtype=np.bool_)
    _, nodes = _read_character(units, np.zeros(1, dtype=np.int64))
    while (nodes := np.unique(nodes[~seen[nodes]])).size:
        seen[nodes] = True
        codes, nodes = _read_character(units, nodes)
        joining.update(map(chr, np.unique(codes).tolist()))
    return joining


def _read_character(units: Ints, nodes: Ints) -> tuple[Ints, Ints]:
    """The code points that may follow at these nodes, and the node after each."""
    _, heads, nodes = _children(units, nodes, _BYTES)
    more = (heads >= 0xC0).astype(np.int64) + (heads >= 0xE0) + (heads >= 0xF0)
    codes = np.where(more > 0, heads & (0x3F >> more), heads)
    finished = []
    for byte in range(4):
        whole = more == byte
        finished.append((codes[whole], nodes[whole]))
        codes, nodes, more = codes[~whole], nodes[~whole], more[~whole]
        parents, tails, nodes = _children(units, nodes, _CONTINUING)
        codes, more = codes[parents] << 6 | tails & 0x3F, more[parents]
    return np.concatenate([codes for codes, _ in finished]), np.concatenate([nodes for _, nodes in finished])


def _children(units: Ints, nodes: Ints, labels: Ints) -> tuple[Ints, Ints, Ints]:
    """Of all children of some nodes by these bytes: which node is the parent, the byte, and the child."""
    unit = units[nodes]
    offsets = (unit >> 10) << ((unit & 0x200) >> 6)
    children = (nodes ^ offsets)[:, None] ^ labels
    # A unit with the highest bit set is no node but what a sequence becomes.
    parents, chosen = np.nonzero((units[children] & 0x800000FF) == labels)
    return parents, labels[chosen], children[parents, chosen]
