"""The version of this broker."""

VERSION = "0.1.0"
