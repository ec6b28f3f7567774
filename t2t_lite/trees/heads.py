"""Finds the heads of constituents, and the dependencies between words that follow from them.

The rules are those of Collins (1999, appendix A), "Head-Driven Statistical Models for Natural Language Parsing", with
two additions: NML, a label of later treebanks, is treated like NP and NX, and punctuation is a head only if there is
nothing else.
"""

from collections.abc import Sequence

from t2t_lite.trees.tree import LEAF, OPEN, Tree, walk

PUNCTUATION = frozenset((",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP"))  # tags

_LEFT, _RIGHT = 1, -1  # search from the left or from the right
# For each label, the search direction, and the labels of head children in order of preference.
_RULES = {
    "ADJP": (_LEFT, "NNS QP NN $ ADVP JJ VBN VBG ADJP JJR NP JJS DT FW RBR RBS SBAR RB"),
    "ADVP": (_RIGHT, "RB RBR RBS FW ADVP TO CD JJR JJ IN NP JJS NN"),
    "CONJP": (_RIGHT, "CC RB IN"),
    "FRAG": (_RIGHT, ""),
    "LST": (_RIGHT, "LS"),
    "NAC": (_LEFT, "NN NNS NNP NNPS NP NAC EX $ CD QP PRP VBG JJ JJS JJR ADJP FW"),
    "PP": (_RIGHT, "IN TO VBG VBN RP FW"),
    "PRT": (_RIGHT, "RP"),
    "QP": (_LEFT, "$ IN NNS NN JJ RB DT CD NCD QP JJR JJS"),
    "RRC": (_RIGHT, "VP NP ADVP ADJP PP"),
    "S": (_LEFT, "TO IN VP S SBAR ADJP UCP NP"),
    "SBAR": (_LEFT, "WHNP WHPP WHADVP WHADJP IN DT S SQ SINV SBAR FRAG"),
    "SBARQ": (_LEFT, "SQ S SINV SBARQ FRAG"),
    "SINV": (_LEFT, "VBZ VBD VBP VB MD VP S SINV ADJP NP"),
    "SQ": (_LEFT, "VBZ VBD VBP VB MD VP SQ"),
    "UCP": (_RIGHT, ""),
    "VP": (_LEFT, "TO VBD VBN MD VBZ VB VBG VBP VP ADJP NN NNS NP"),
    "WHADJP": (_LEFT, "CC WRB JJ ADJP"),
    "WHADVP": (_RIGHT, "CC WRB"),
    "WHNP": (_LEFT, "WDT WP WP$ WHADJP WHPP WHNP"),
    "WHPP": (_RIGHT, "IN TO FW"),
}
_NOMINAL = ("NP", "NX", "NML")
# For nominal labels, each step searches for any of several labels. The first child found is the head.
_NOMINAL_STEPS = (
    (_RIGHT, "NN NNP NNPS NNS NX NML POS JJR"),
    (_LEFT, "NP"),
    (_RIGHT, "$ ADJP PRN"),
    (_RIGHT, "CD"),
    (_RIGHT, "JJ JJS RB QP"),
)


def head_child(label: str, children: Sequence[str]) -> int:
    """Returns the index of the head child of a constituent. Labels have no function tags."""
    places = [place for place, child in enumerate(children) if child not in PUNCTUATION]
    places = places or list(range(len(children)))
    labels = [children[place] for place in places]
    head = _head_of_nominal(labels) if label in _NOMINAL else _head_by_rule(label, labels)
    if head >= 2 and labels[head - 1] == "CC":
        head -= 2  # in a coordination, the part before the conjunction is the head
    return places[head]


def _head_by_rule(label: str, children: Sequence[str]) -> int:
    direction, preferred = _RULES.get(label, (_LEFT, ""))
    for wanted in preferred.split():
        if wanted in children:
            return _first(children, wanted, direction)
    return 0 if direction == _LEFT else len(children) - 1


def _head_of_nominal(children: Sequence[str]) -> int:
    last = len(children) - 1
    if children[last] == "POS":
        return last
    for direction, accepted in _NOMINAL_STEPS:
        candidates = [child for child in children[::direction] if child in accepted.split()]
        if candidates:
            return _first(children, candidates[0], direction)
    return last


def _first(children: Sequence[str], label: str, direction: int) -> int:
    """Returns the index of the first child with a label, from the left or from the right."""
    place = children[::direction].index(label)
    return place if direction == _LEFT else len(children) - 1 - place


def head_dependencies(tree: Tree) -> list[tuple[str, int, int]]:
    """Returns (label, word, head) for each word except the head of the tree, in no particular order.

    `label` is the label of a constituent, `head` is its head, and `word` is the head of another of its children. Words
    are counted from 0. Punctuation is left out unless it is a head. The tree must have no empty elements or function
    tags, see `clean`.
    """
    dependencies: list[tuple[str, int, int]] = []
    # For each open constituent, the labels and head words of its children so far.
    children: list[list[tuple[str, int]]] = [[]]
    words = 0
    for kind, node in walk(tree):
        if kind is OPEN:
            children.append([])
        elif kind is LEAF:
            children[-1].append((node.label, words))
            words += 1
        else:
            parts = children.pop()
            head = parts[head_child(node.label, [label for label, _ in parts])][1]
            dependencies += [
                (node.label, word, head) for label, word in parts if word != head and label not in PUNCTUATION
            ]
            children[-1].append((node.label, head))
    return dependencies
