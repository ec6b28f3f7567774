"""One text in the place of a list of texts."""

import functools
import inspect
from collections.abc import Callable


def or_a_single_text(*names: str) -> Callable[[Callable], Callable]:
    """Makes a method that takes lists of texts take single texts, too. Use as a decorator.

    A string is a sequence of strings as well, and each of its characters would pass for a text.

    Args:
      names: the arguments that hold texts; one that is not given, or None, does not count.

    Returns:
      a decorator. Given a text for each of these arguments, the method gives what it gives for that text alone: not a
      list of one. It raises TypeError if some are texts and others lists.
    """

    def decorate(method):
        signature = inspect.signature(method)

        @functools.wraps(method)
        def of_texts(*args, **kwargs):
            bound = signature.bind(*args, **kwargs)
            given = [name for name in names if bound.arguments.get(name) is not None]
            single = [name for name in given if isinstance(bound.arguments[name], str)]
            if not single:
                return method(*args, **kwargs)
            if single != given:
                others = ", ".join(name for name in given if name not in single)
                raise TypeError(f"{method.__name__}: {', '.join(single)} is one text, and {others} is not; give lists")
            bound.arguments.update({name: [bound.arguments[name]] for name in single})
            (result,) = method(*bound.args, **bound.kwargs)
            return result

        return of_texts

    return decorate
