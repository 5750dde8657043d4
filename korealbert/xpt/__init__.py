"""Cross-lingual post-training (XPT): an English encoder becomes a Korean one.

Source checkpoint → transfer to a Korean vocabulary, with implicit translation layers (ITL) at either end → phase 1, in which
the encoder is frozen → phase 2, in which everything is trained. Lee et al. 2021 (Appl. Sci. 11(5):1974); Son et al. 2022,
"Language Chameleon".
"""
