"""Masks, written out."""

import numpy as np

from t2t_lite.layers.masks import causal_mask, padding_mask, visible_up_to


def test_padding_is_hidden_and_pieces_are_seen():
    ids = np.array([[7, 1, 0, 0], [4, 5, 6, 1], [0, 0, 0, 0]])
    mask = np.array(padding_mask(ids))
    assert mask.dtype == bool
    assert mask.tolist() == [
        [[[True, True, False, False]]],
        [[[True, True, True, True]]],
        [[[False, False, False, False]]],
    ]


def test_a_causal_mask_shows_each_position_itself_and_what_lies_before():
    mask = np.array(causal_mask(4))
    assert mask.dtype == bool
    assert mask.astype(int).tolist() == [
        [
            [
                [1, 0, 0, 0],
                [1, 1, 0, 0],
                [1, 1, 1, 0],
                [1, 1, 1, 1],
            ]
        ]
    ]


def test_a_single_query_sees_keys_up_to_its_own_position():
    assert np.array(visible_up_to(np.array([2]), 5)).astype(int).tolist() == [[[[1, 1, 1, 0, 0]]]]
    assert np.array(visible_up_to(np.array([0]), 5)).astype(int).tolist() == [[[[1, 0, 0, 0, 0]]]]
    assert np.array(visible_up_to(np.array([4]), 5)).astype(int).tolist() == [[[[1, 1, 1, 1, 1]]]]


def test_queries_may_stand_in_any_order():
    assert np.array(visible_up_to(np.array([3, 1]), 4)).astype(int).tolist() == [[[[1, 1, 1, 1], [1, 1, 0, 0]]]]
