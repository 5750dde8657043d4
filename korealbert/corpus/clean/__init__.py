"""Cleaning: filters, news rules, normalisation, personal data and sentences."""
