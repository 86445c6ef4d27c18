"""Runs that workers elsewhere execute: claimed, renewed and finished by calls, under the same fence as local ones."""
