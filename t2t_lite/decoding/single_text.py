"""A decorator for methods that accept one text as well as a list of texts."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any


def or_a_single_text(*names: str, lists: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator that lets a method of lists of texts accept single texts as well.

    Without it, a string would pass as a sequence of one-character texts.

    Args:
      names: the arguments that hold texts; those that are missing or None are ignored.
      lists: the arguments that hold a list for each text, and for a single text its list.

    Returns:
      a decorator. If all of these arguments are single texts, the method returns the result of that text instead of a
      list. It raises TypeError if some are texts and others are lists.
    """

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def of_texts(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  (what the method returns)
            bound = signature.bind(*args, **kwargs)
            present = [name for name in names if bound.arguments.get(name) is not None]
            single = [name for name in present if isinstance(bound.arguments[name], str)]
            if not single:
                return method(*args, **kwargs)
            if single != present:
                others = ", ".join(name for name in present if name not in single)
                raise TypeError(f"{method.__name__}: {', '.join(single)} is one text and {others} is not; give lists")
            lists_given = [name for name in lists if bound.arguments.get(name) is not None]
            bound.arguments.update({name: [bound.arguments[name]] for name in (*single, *lists_given)})
            (result,) = method(*bound.args, **bound.kwargs)
            return result

        return of_texts

    return decorate
