/** A conversation as Markdown, to paste into an issue or a chat. Pure; browser. */
import { type Block, blocksOf, type CapturedRun, type CapturedTurn, findResults } from './captured.ts';

export function writeMarkdown(run: CapturedRun, turns: readonly CapturedTurn[]): string {
  const results = findResults(turns);
  const parts = [
    `# ${run.task ?? run.run_id}`,
    `run ${run.run_id} · ${run.models.join(', ')} · ${run.turns} turns`,
  ];
  for (const turn of turns) {
    for (const { role, content } of turn.messages_added)
      for (const block of blocksOf(content))
        if (block.type !== 'tool_result') parts.push(`## ${role}\n\n${writeBlock(block)}`);
    if (turn.content.length > 0)
      parts.push(`## assistant (${turn.model ?? 'unknown'}, exchange ${turn.exchange_id})`);
    for (const block of blocksOf(turn.content)) {
      parts.push(writeBlock(block));
      const result = block.type === 'tool_call' ? results.get(block.id) : undefined;
      if (result !== undefined) parts.push(writeBlock(result));
    }
    if (turn.error !== null) parts.push(`**error** ${turn.error}`);
  }
  return `${parts.join('\n\n')}\n`;
}

function writeBlock(block: Block): string {
  switch (block.type) {
    case 'text':
    case 'refusal':
      return block.text;
    case 'thinking':
      return block.text === '' ? '*(hidden thinking)*' : block.text.replaceAll(/^/gm, '> ');
    case 'tool_call':
      return `**call** \`${block.name}\`\n\n${fence(writeValue(block.input))}`;
    case 'tool_result':
      return `**result**${block.is_error ? ' (failed)' : ''}\n\n${fence(block.content.map(writeBlock).join('\n'))}`;
    case 'media':
      return `*(${block.kind}${block.media_type === null ? '' : ` ${block.media_type}`})*`;
    case 'cache_point':
      return '';
    case 'other':
      return fence(writeValue({ [block.name]: block.value }));
  }
}

/** Encloses a text in a fence that is longer than any fence in the text. */
function fence(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const ticks = '`'.repeat(longest + 1);
  return `${ticks}\n${text}\n${ticks}`;
}

export function writeValue(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '');
}
