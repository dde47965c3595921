"""Adapters: a few weights beside frozen ones, trained, stored, merged and handed on (PEFT)."""
