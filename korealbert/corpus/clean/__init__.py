"""Cleaning: normalisation, news rules, filters, personal data and sentences."""
