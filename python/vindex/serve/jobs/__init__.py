"""Runs of the program: what a request asks for, its arguments, its folder, its process."""
