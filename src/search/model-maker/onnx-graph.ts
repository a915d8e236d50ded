/**
 * Writes ONNX graphs: callers add nodes and constants one by one and get the bytes of a model file. The supported
 * subset of the format's messages is below, with the field numbers of the public definition (onnx.proto). Development
 * only: for the script that makes the default model, and for tests.
 */
import protobuf from 'protobufjs';

const ONNX_SUBSET = `
syntax = "proto2";
message ModelProto {
  optional int64 ir_version = 1;
  optional string producer_name = 2;
  optional GraphProto graph = 7;
  repeated OperatorSetIdProto opset_import = 8;
}
message OperatorSetIdProto { optional string domain = 1; optional int64 version = 2; }
message GraphProto {
  repeated NodeProto node = 1;
  optional string name = 2;
  repeated TensorProto initializer = 5;
  repeated ValueInfoProto input = 11;
  repeated ValueInfoProto output = 12;
}
message NodeProto {
  repeated string input = 1;
  repeated string output = 2;
  optional string op_type = 4;
  repeated AttributeProto attribute = 5;
}
message AttributeProto {
  optional string name = 1;
  optional int64 i = 3;
  optional bytes s = 4;
  repeated int64 ints = 8;
  optional int32 type = 20;
}
message TensorProto {
  repeated int64 dims = 1;
  optional int32 data_type = 2;
  optional string name = 8;
  optional bytes raw_data = 9;
}
message ValueInfoProto { optional string name = 1; optional TypeProto type = 2; }
message TypeProto { optional Tensor tensor_type = 1; message Tensor { optional int32 elem_type = 1; optional Shape shape = 2; } }
message Shape { repeated Dimension dim = 1; message Dimension { optional int64 dim_value = 1; optional string dim_param = 2; } }
`;

const IR_VERSION = 9;
const OPSET = 19;
const ATTRIBUTE_INT = 2;
const ATTRIBUTE_STRING = 3;
const ATTRIBUTE_INTS = 7;

/** Element types, by ONNX's numbers. */
const ELEMENT = { float: 1, uint8: 2, int8: 3, int64: 7 } as const;
type Element = keyof typeof ELEMENT;

/** A length, or the name of a length that is set at run time. */
type Dimension = number | string;

type Attribute = number | string | readonly number[];
type Constant = Float32Array | Uint8Array | Int8Array | BigInt64Array;

/** Builds one graph. A method that adds an input, a constant or a node returns the name of the added value. */
export class OnnxGraph {
  readonly #nodes: object[] = [];
  readonly #initializers: object[] = [];
  readonly #inputs: object[] = [];
  readonly #outputs: object[] = [];
  #count = 0;

  input(name: string, element: Element, shape: readonly Dimension[]): string {
    this.#inputs.push(describeValue(name, element, shape));
    return name;
  }

  output(name: string, element: Element, shape: readonly Dimension[]): void {
    this.#outputs.push(describeValue(name, element, shape));
  }

  /** Adds a tensor that is stored in the model. The array determines the element type. */
  constant(data: Constant, dims: readonly number[]): string {
    const name = `c${this.#count++}`;
    const element =
      data instanceof Float32Array
        ? ELEMENT.float
        : data instanceof Uint8Array
          ? ELEMENT.uint8
          : data instanceof Int8Array
            ? ELEMENT.int8
            : ELEMENT.int64;
    const raw_data = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    this.#initializers.push({ name, dims: [...dims], data_type: element, raw_data });
    return name;
  }

  /** Adds a vector of whole numbers. */
  ints(...values: number[]): string {
    return this.constant(BigInt64Array.from(values, BigInt), [values.length]);
  }

  /** Adds a scalar integer. */
  int(value: number): string {
    return this.constant(BigInt64Array.of(BigInt(value)), []);
  }

  float(value: number): string {
    return this.constant(Float32Array.of(value), []);
  }

  /**
   * Adds a node.
   * @param name name of the output; default: a new one
   * @returns the node's output
   */
  node(
    op: string,
    inputs: readonly string[],
    attributes: Record<string, Attribute> = {},
    name?: string,
  ): string {
    const output = name ?? `v${this.#count++}`;
    const attribute = Object.entries(attributes).map(([key, value]) => {
      if (typeof value === 'number') return { name: key, i: value, type: ATTRIBUTE_INT };
      if (typeof value === 'string') return { name: key, s: Buffer.from(value), type: ATTRIBUTE_STRING };
      return { name: key, ints: [...value], type: ATTRIBUTE_INTS };
    });
    this.#nodes.push({ op_type: op, input: [...inputs], output: [output], attribute });
    return output;
  }

  /** Writes the bytes of the model file. */
  encode(graphName: string): Uint8Array {
    const type = protobuf.parse(ONNX_SUBSET, { keepCase: true }).root.lookupType('ModelProto');
    const model = type.create({
      ir_version: IR_VERSION,
      producer_name: 'understudy',
      opset_import: [{ domain: '', version: OPSET }],
      graph: {
        name: graphName,
        node: this.#nodes,
        initializer: this.#initializers,
        input: this.#inputs,
        output: this.#outputs,
      },
    });
    return type.encode(type.fromObject(model)).finish();
  }
}

function describeValue(name: string, element: Element, shape: readonly Dimension[]): object {
  const dim = shape.map((d) => (typeof d === 'number' ? { dim_value: d } : { dim_param: d }));
  return { name, type: { tensor_type: { elem_type: ELEMENT[element], shape: { dim } } } };
}
