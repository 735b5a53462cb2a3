// run.mjs: read lines {"model", "input", "type", "dims", "output"} from stdin. For each, run an
// ONNX model on raw samples, write its logits and then its probabilities as raw float32, and answer
// with a line.
import fs from 'node:fs';
import readline from 'node:readline';
import ort from 'onnxruntime-node';

const arrays = {uint8: Uint8Array, float32: Float32Array};

for await (const line of readline.createInterface({input: process.stdin})) {
    const work = JSON.parse(line);
    const bytes = fs.readFileSync(work.input);
    const data = new arrays[work.type](
        bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
    const session = await ort.InferenceSession.create(work.model, {intraOpNumThreads: 1});
    const input = new ort.Tensor(work.type, data, work.dims);
    const {logits, probabilities} = await session.run({input});
    fs.writeFileSync(work.output, Buffer.concat([logits, probabilities].map(
        ({data}) => Buffer.from(data.buffer, data.byteOffset, data.byteLength))));
    await session.release();
    console.log(JSON.stringify({dims: logits.dims}));
}
