/**
 * Restores the header values of a request byte for byte. The library treats bytes above 127 at the
 * beginning or end of a value as spaces and removes them. For heads with such bytes, the addon
 * keeps the original lines. Server threads.
 */
import { socketEngine } from '../../native/socket-engine.ts';

/**
 * Replaces the values by the original ones, one byte per character. Call it if `takeHead` has returned `RAW_HEAD`.
 * @param headers name, value, name, value as the library gives them
 * @returns false if the addon's head has other lines
 */
export function restoreValues(headers: string[]): boolean {
  // Remove the request line at the beginning, and the two empty strings after the last header line.
  const lines = socketEngine.rawHead().split('\r\n').slice(1, -2);
  const colons = lines.map((line) => line.indexOf(':'));
  const areSame = lines.every((line, at) => line.slice(0, colons[at]).toLowerCase() === headers[at * 2]);
  if (!areSame || lines.length !== headers.length / 2) return false;
  for (const [at, line] of lines.entries()) headers[at * 2 + 1] = trimBlanks(line.slice(colons[at]! + 1));
  return true;
}

function trimBlanks(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09;
}
