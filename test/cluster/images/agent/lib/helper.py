"""On the PYTHONPATH that the image sets."""
VALUE = 7
