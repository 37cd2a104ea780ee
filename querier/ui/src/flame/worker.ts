/* The worker of load.ts: parses and decodes a large answer. */
import { type LoadReply, type LoadRequest, parse } from "./load";
import { type Flame } from "./model";

function buffers(flame: Flame): ArrayBuffer[] {
  const arrays = [flame.x, flame.w, flame.self, flame.name, flame.parent, flame.level, flame.child, flame.levelStart];
  for (const side of [flame.left, flame.right]) if (side) arrays.push(side.x, side.w, side.self);
  return arrays.map((array) => array.buffer as ArrayBuffer);
}

const scope = self as unknown as {
  onmessage: (event: MessageEvent<LoadRequest>) => void;
  postMessage: (reply: LoadReply, moved: ArrayBuffer[]) => void;
};

scope.onmessage = (event) => {
  const { id, bytes, width } = event.data;
  try {
    const loaded = parse(bytes, width);
    scope.postMessage({ id, loaded }, buffers(loaded.flame));
  } catch (error) {
    scope.postMessage({ id, error: error instanceof Error ? error.message : String(error) }, []);
  }
};
