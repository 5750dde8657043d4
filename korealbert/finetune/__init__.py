"""Fine-tuning on benchmarks: any encoder in Hugging Face format, one run per benchmark, init and seed."""
