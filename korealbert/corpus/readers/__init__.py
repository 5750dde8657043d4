"""Readers: raw files of any format and compression, cut into records that become documents."""
