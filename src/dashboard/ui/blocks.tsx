/** The content of a turn by block: text, thinking, calls with their results, images. Browser. */
import { type Block, blocksOf } from '../core/captured.ts';
import { formatNumber } from '../core/format.ts';
import { writeValue } from '../core/markdown.ts';
import { Badge } from './basics.tsx';
import { CapturedImage } from './captured-image.tsx';
import { LongText } from './long-text.tsx';
import { DataText, ProseText } from './rendered-text.tsx';

type Result = Extract<Block, { type: 'tool_result' }>;

/** What blocks need from their conversation. */
export interface BlockContext {
  exchange_id: number;
  /** Results of calls, by the ids of the calls. */
  results: ReadonlyMap<string, Result>;
}

export function Blocks({
  content,
  context,
}: {
  content: readonly { type: string }[];
  context: BlockContext;
}) {
  return (
    <>
      {blocksOf(content).map((block, at) => (
        <BlockView key={at} block={block} context={context} />
      ))}
    </>
  );
}

function BlockView({ block, context }: { block: Block; context: BlockContext }) {
  switch (block.type) {
    case 'text':
      return <ProseText text={block.text} />;
    case 'refusal':
      return (
        <div class="refusal">
          <Badge tone="bad">refused</Badge>
          <LongText text={block.text} />
        </div>
      );
    case 'thinking':
      return <Thinking text={block.text} />;
    case 'tool_call':
      return <Call call={block} result={context.results.get(block.id)} context={context} />;
    case 'tool_result':
      return <ResultView result={block} context={context} />;
    case 'media':
      return <CapturedImage media={block} exchange_id={context.exchange_id} />;
    case 'cache_point':
      return <p class="cache-point">cached up to here{block.ttl === null ? '' : ` for ${block.ttl}`}</p>;
    case 'other':
      return (
        <details class="fold">
          <summary>{block.name}</summary>
          <LongText text={writeValue(block.value)} kind="code" />
        </details>
      );
    default:
      // A type of block that this version of the page does not know.
      return <LongText text={writeValue(block)} kind="code" />;
  }
}

function Thinking({ text }: { text: string }) {
  if (text === '') return <p class="faint thinking-hidden">thinking, hidden by the provider</p>;
  return (
    <details class="fold thinking" open={text.length < 600}>
      <summary>
        Thinking <span class="faint">{formatNumber(text.length)} characters</span>
      </summary>
      <ProseText text={text} lines={30} />
    </details>
  );
}

function Call({
  call,
  result,
  context,
}: {
  call: Extract<Block, { type: 'tool_call' }>;
  result: Result | undefined;
  context: BlockContext;
}) {
  return (
    <div class={`call ${result?.is_error === true ? 'call-failed' : ''}`}>
      <div class="call-head">
        <span class="arrow" aria-hidden="true">
          →
        </span>
        <span class="offstage">call</span>
        <code>{call.name}</code>
      </div>
      <CallInput input={call.input} />
      {result === undefined ? (
        <p class="faint no-result">no result was captured</p>
      ) : (
        <ResultView result={result} context={context} />
      )}
    </div>
  );
}

/** The input field by field, so that the content of a written file reads like the file. */
function CallInput({ input }: { input: unknown }) {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    return input === '' || input == null ? null : <LongText text={writeValue(input)} kind="code" />;
  const entries = Object.entries(input);
  if (entries.length === 0) return null;
  return (
    <dl class="call-input">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            <DataText text={writeValue(value)} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function ResultView({ result, context }: { result: Result; context: BlockContext }) {
  return (
    <div class={`result ${result.is_error ? 'result-failed' : ''}`}>
      <div class="call-head">
        <span class="arrow" aria-hidden="true">
          ←
        </span>
        <span class="faint">result</span>
        {result.is_error ? <Badge tone="bad">failed</Badge> : null}
      </div>
      {result.content.length === 0 ? <p class="faint">empty</p> : null}
      {result.content.map((block, at) =>
        block.type === 'text' ? (
          <DataText key={at} text={block.text} />
        ) : (
          <BlockView key={at} block={block} context={context} />
        ),
      )}
    </div>
  );
}
