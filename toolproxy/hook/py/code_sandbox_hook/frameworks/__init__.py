"""One module a framework: where it takes the function, and what it injects."""
