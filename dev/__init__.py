"""What only the project itself runs, from a checkout; no part of the package."""
