"""Flags of vLLM are taken or refused by name; what is wrong with a value is told before weights are packed; what
cannot be written or read is an error."""
import pytest
from quire_process import ROOT, run_quire
from test_commands import TINY, fails_with

# vLLM's, as its documentation lists them for `serve`.
VLLM = """
--served-model-name --tokenizer --tokenizer-mode --runner --convert --dtype --max-model-len --seed --enforce-eager
--max-logprobs --logprobs-mode --generation-config --override-generation-config --hf-overrides --trust-remote-code
--revision --skip-tokenizer-init --enable-prompt-embeds --enable-sleep-mode --model-impl --load-format
--safetensors-load-strategy --download-dir --model-loader-extra-config --ignore-patterns --quantization -q
--quantization-config --cpu-offload-gb -O --optimization-level --compilation-config --attention-backend
--max-num-batched-tokens --max-num-seqs --max-num-scheduled-tokens --max-num-queued-reqs --max-num-queued-tokens
--enable-chunked-prefill --long-prefill-token-threshold --scheduling-policy --async-scheduling --stream-interval
--scheduler-reserve-full-isl --watermark --prefill-schedule-interval --scheduler-cls --disable-chunked-mm-input
--disable-hybrid-kv-cache-manager --block-size --gpu-memory-utilization --kv-cache-memory-bytes --kv-cache-dtype
--enable-prefix-caching --prefix-caching-hash-algo --prefix-match-unit --num-gpu-blocks-override
--kv-offloading-size --kv-offloading-backend --mamba-cache-mode --mamba-block-size --mamba-cache-dtype
-tp --tensor-parallel-size -pp --pipeline-parallel-size -dp --data-parallel-size --data-parallel-address
--data-parallel-rank --data-parallel-rpc-port --data-parallel-backend --enable-expert-parallel --all2all-backend
--enable-eplb --decode-context-parallel-size --prefill-context-parallel-size --distributed-executor-backend
--nnodes --node-rank --master-addr --master-port --api-server-count --disable-custom-all-reduce --numa-bind
--enable-lora --max-loras --max-lora-rank --max-cpu-loras --lora-dtype --fully-sharded-loras --lora-modules
--default-mm-loras --speculative-config --spec-method --spec-model --spec-tokens --structured-outputs-config
--reasoning-parser --reasoning-parser-plugin --host --port --uds --api-key --ssl-keyfile --ssl-certfile
--ssl-ca-certs --ssl-cert-reqs --ssl-ciphers --enable-ssl-refresh --allowed-origins --allowed-methods
--allowed-headers --allow-credentials --root-path --middleware --chat-template --chat-template-content-format
--default-chat-template-kwargs --trust-request-chat-template --response-role --enable-auto-tool-choice
--tool-call-parser --tool-parser-plugin --exclude-tools-when-tool-choice-none --tool-server
--enable-prompt-tokens-details --enable-force-include-usage --enable-per-request-metrics --fingerprint-mode
--h11-max-incomplete-event-size --h11-max-header-count --uvicorn-log-level --disable-uvicorn-access-log
--disable-access-log-for-endpoints --enable-log-requests --enable-log-outputs --max-log-len --log-error-stack
--shutdown-timeout --disable-log-stats --otlp-traces-endpoint --collect-detailed-traces
--show-hidden-metrics-for-version --kv-cache-metrics --kv-cache-metrics-sample --enable-mfu-metrics
--cudagraph-metrics --enable-logging-iteration-details --per-request-spec-decode-metrics --profiler-config
--kv-events-config --headless --config --disable-fastapi-docs --enable-offline-docs --enable-request-id-headers
--enable-tokenizer-info-endpoint --enable-server-load-tracking --tokens-only --return-tokens-as-token-ids
--disable-log-requests
""".split()


def test_every_flag_of_vllm_is_taken_or_refused_by_name(binary):
    taken = run_quire(binary, "serve", "--help").stdout.replace(",", " ").replace("{false}", " ").split()
    refused = []
    for flag in VLLM:
        if flag in taken:
            continue
        last = fails_with(run_quire(binary, "serve", TINY, flag), f"{flag} is a flag of vLLM", codes=(2,))
        assert len(last.split(": ")[-1]) > 5, last
        refused.append(flag)
    assert "--uvicorn-log-level" in refused and "--enforce-eager" not in refused


def test_what_asks_for_nothing_is_taken(binary):
    done = run_quire(binary, "generate", TINY, "-p", "a", "-n", "1", "--enforce-eager", "--enable-chunked-prefill")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flags", [
    ["--max-model-len", "many"], ["--max-model-len", "99999999"], ["--kv-cache-memory-bytes", "2X"],
    ["--state-cache-memory-bytes", "x"], ["--mamba-block-size", "40"], ["--tool-call-parser", "none-such"],
    ["--reasoning-parser", "none-such"], ["--default-chat-template-kwargs", "[1]"],
    ["--chat-template", "no/such/file.jinja"], ["--override-generation-config", '{"temperature": -3}'],
    ["--override-generation-config", '{"top_p": 2}'], ["--host", "no such host"], ["--host", "203.0.113.7"]])
def test_a_wrong_value_is_told_before_weights_are_packed(binary, flags):
    done = run_quire(binary, "serve", TINY, *flags)
    fails_with(done, flags[1] if flags[0] == "--host" else flags[0])
    assert "packed" not in done.stderr


@pytest.mark.parametrize("command", ["generate", "chat"])
def test_sampling_is_checked_first(binary, command):
    fails_with(run_quire(binary, command, TINY, "--override-generation-config", '{"temperature": -3}'),
               "--override-generation-config", "temperature", "-3")
    fails_with(run_quire(binary, command, "no/such/model", "--temperature", "-3"), "temperature", "-3")


def test_seeds_are_not_negative(binary):
    fails_with(run_quire(binary, "simulate", "--seed", "-1"), "--seed", codes=(2,))
    fails_with(run_quire(binary, "generate", TINY, "--seed", "-1"), "--seed", codes=(2,))


def test_a_batch_is_a_file(binary, tmp_path):
    fails_with(run_quire(binary, "run-batch", TINY, "-i", str(tmp_path), "-o", str(tmp_path / "out")), "-i", "folder")


@pytest.mark.parametrize("command", [["generate", TINY, "-p", "a", "-n", "400"], ["inspect", TINY], ["--version"],
                                     ["serve", "--help"], ["openapi"], ["simulate", "--num-prompts", "4"]])
def test_output_that_cannot_be_written_is_an_error(binary, command):
    with open("/dev/full", "w") as full:
        done = run_quire(binary, *command, stdout=full)
    fails_with(done, "output could not be written")
