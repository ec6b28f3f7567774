"""Lets methods of lists of texts accept a single text as well."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

from t2t_lite.arrays import Forwarded

if TYPE_CHECKING:
    from t2t_lite.decoding.line_search import Hypothesis

_Result = TypeVar("_Result")


class OfTexts(Protocol[_Result]):
    """The type of such a method: it returns one result for one text, and a list for a list."""

    @overload
    def __call__(self, text: str, /, *more: Forwarded, **options: Forwarded) -> _Result: ...

    @overload
    def __call__(self, texts: Sequence[str], /, *more: Forwarded, **options: Forwarded) -> list[_Result]: ...

    @overload
    def __call__(self, **options: Forwarded) -> Any: ...  # noqa: ANN401  texts given by name


class Translates(Protocol):
    """The type of `translate`, which returns texts, or hypotheses with scores."""

    @overload
    def __call__(self, lines: str, return_scores: Literal[False] = ..., **options: Forwarded) -> str: ...

    @overload
    def __call__(
        self, lines: Sequence[str], return_scores: Literal[False] = ..., **options: Forwarded
    ) -> list[str]: ...

    @overload
    def __call__(self, lines: str, return_scores: Literal[True], **options: Forwarded) -> "Hypothesis": ...

    @overload
    def __call__(
        self, lines: Sequence[str], return_scores: Literal[True], **options: Forwarded
    ) -> "list[Hypothesis]": ...


def or_a_single_text(
    *names: str, lists: Sequence[str] = ()
) -> Callable[[Callable[..., list[_Result]]], OfTexts[_Result]]:
    """Returns a decorator that lets a method of lists of texts accept single texts as well.

    Without it, a string would be treated as a sequence of one-character texts.

    Args:
      names: the arguments that hold texts; missing ones and None are ignored.
      lists: the arguments that hold one list per text, and for a single text its list.

    Returns:
      a decorator. If all of these arguments are single texts, the method returns that text's result instead of a
      list. It raises TypeError if some arguments are texts and others lists.
    """

    def decorate(method: Callable[..., list[_Result]]) -> Any:  # noqa: ANN401  the method, of another type
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
                raise TypeError(
                    f"{method.__name__}: {', '.join(single)} is a string but {others} is not; pass lists for both"
                )
            lists_given = [name for name in lists if bound.arguments.get(name) is not None]
            bound.arguments.update({name: [bound.arguments[name]] for name in (*single, *lists_given)})
            (result,) = method(*bound.args, **bound.kwargs)
            return result

        return of_texts

    return decorate


def translates(method: Callable[..., Any]) -> Translates:
    """Decorates `translate` with `or_a_single_text`; a single text has one prefix and one list of phrases."""
    decorated: Any = or_a_single_text("lines", "prefixes", lists=("phrases",))(method)
    return decorated
