"""Shapes in signatures: jaxtyping's where it is installed, and else no more than their text.

So the package needs nothing but NumPy.
"""

__all__ = ["Bool", "Float", "Int"]

try:
    from jaxtyping import Bool, Float, Int
except ModuleNotFoundError:

    class _Array:
        """Reads `Float[np.ndarray, "n_q d_k"]`, and keeps the shape as jaxtyping does."""

        def __class_getitem__(cls, array_and_shape):
            _, shape = array_and_shape
            return type(cls.__name__, (cls,), {"dim_str": shape})

    Bool = Float = Int = _Array
