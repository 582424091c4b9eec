"""Entry points of the images, their configuration files, and programs beside them."""
