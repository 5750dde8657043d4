"""Fine-tuning on benchmarks: any encoder in Hugging Face format, one cell per benchmark, init and seed."""
