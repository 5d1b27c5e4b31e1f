"""Text generation with the options of transformers' example of that name."""
import argparse
import json
import pathlib
import sys

import tinylm
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed

print("arguments:", json.dumps(sys.argv[1:]))
parser = argparse.ArgumentParser()
parser.add_argument("--model_type", required=True, choices=["gpt2"])
parser.add_argument("--model_name_or_path", required=True)
parser.add_argument("--prompt", default="")
parser.add_argument("--length", type=int, default=20)
parser.add_argument("--temperature", type=float, default=1.0)
parser.add_argument("--num_return_sequences", type=int, default=1)
parser.add_argument("--seed", type=int, default=42)
args = parser.parse_args()

if args.model_name_or_path == "tiny" and not pathlib.Path("tiny/config.json").exists():
    tinylm.save("tiny")
tokenizer = AutoTokenizer.from_pretrained(args.model_name_or_path)
model = AutoModelForCausalLM.from_pretrained(args.model_name_or_path)
set_seed(args.seed)
encoded = tokenizer(args.prompt, return_tensors="pt")
with torch.no_grad():
    output = model.generate(**encoded, max_new_tokens=args.length, min_new_tokens=args.length, do_sample=True,
                            temperature=args.temperature, num_return_sequences=args.num_return_sequences,
                            pad_token_id=tokenizer.eos_token_id)
for number, sequence in enumerate(output, 1):
    print(f"=== GENERATED SEQUENCE {number} ===")
    print(json.dumps({"text": tokenizer.decode(sequence), "new_tokens": len(sequence) - encoded["input_ids"].shape[1]}))
