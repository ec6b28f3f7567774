"""Masks, written out."""

import numpy as np

from t2t_lite.layers.masks import causal_mask, padding_mask  # the path that plug-ins import


def test_the_padding_mask_hides_padding_only():
    ids = np.array([[7, 1, 0, 0], [4, 5, 6, 1], [0, 0, 0, 0]])
    mask = np.array(padding_mask(ids))
    assert mask.dtype == bool
    assert mask.tolist() == [
        [[[True, True, False, False]]],
        [[[True, True, True, True]]],
        [[[False, False, False, False]]],
    ]


def test_a_causal_mask_shows_each_position_itself_and_earlier_ones():
    mask = np.array(causal_mask(np.arange(4)))
    assert mask.dtype == bool
    assert mask.astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]
