"""Installs a fault in each process that a faulty one starts."""

from faults.injector import install

install()
