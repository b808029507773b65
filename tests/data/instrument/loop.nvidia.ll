; ModuleID = 'kernel'
target datalayout = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-v16:16-v32:32-n16:32:64"

; Function Attrs: nounwind
@global_smem = external addrspace(3) global [0 x i8], align 16

define ptx_kernel void @loop(ptr addrspace(1) %0, i32 %1, ptr addrspace(1) nofree %2) local_unnamed_addr #0 {
  %proton.e.ns = call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"()
  %proton.e.clock = call i64 asm sideeffect "mov.u64 $0, %clock64;", "=l"()
  %proton.e.tid = call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()
  %proton.e.warp = lshr i32 %proton.e.tid, 5
  %proton.e.unit = add i32 %proton.e.warp, 0
  %proton.e.on0 = or i1 true, true
  %proton.e.s0 = ptrtoint ptr addrspace(3) @global_smem to i32
  %proton.e.s1 = mul i32 %proton.e.unit, 2112
  %proton.e.s2 = add i32 %proton.e.s0, 0
  %proton.e.ring = add i32 %proton.e.s2, %proton.e.s1
  call void asm sideeffect "st.shared.v2.b64 [$0+16], {$1, $2};", "r,l,l,~{memory}"(i32 %proton.e.ring, i64 %proton.e.ns, i64 %proton.e.clock)
  %4 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  call void asm sideeffect "st.shared.v2.b32 [$0+48], {$1, $2};", "r,r,r"(i32 %proton.e.ring, i32 %4, i32 16777216)
  %5 = icmp sgt i32 %1, 0
  br i1 %5, label %.lr.ph, label %._crit_edge

.lr.ph:                                           ; preds = %3, %.lr.ph
  %proton.i.1 = phi i32 [ 8, %3 ], [ %proton.n.1, %.lr.ph ]
  %6 = phi i32 [ %12, %.lr.ph ], [ 0, %3 ]
  %7 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %8 = load volatile i32, ptr addrspace(1) %0, align 4
  %9 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %proton.m.1 = and i32 %proton.i.1, 2047
  %proton.a.1 = add i32 %proton.e.ring, %proton.m.1
  %proton.n.1 = add i32 %proton.i.1, 16
  %proton.d.2 = sub i32 %9, %7
  %proton.l.2 = icmp ult i32 %proton.d.2, 16777215
  %proton.c.2 = select i1 %proton.l.2, i32 %proton.d.2, i32 16777215
  %proton.w.2 = or disjoint i32 %proton.c.2, 33554432
  call void asm sideeffect "st.shared.v2.b32 [$0+48], {$1, $2};", "r,r,r"(i32 %proton.a.1, i32 %7, i32 %proton.w.2)
  %10 = add i32 %9, 0
  call void asm sideeffect "st.shared.v2.b32 [$0+56], {$1, $2};", "r,r,r"(i32 %proton.a.1, i32 %9, i32 50331648)
  %11 = add i32 %6, %8
  %12 = add nuw nsw i32 %11, 1
  %13 = icmp slt i32 %12, %1
  br i1 %13, label %.lr.ph, label %._crit_edge, !llvm.loop !0

._crit_edge:                                      ; preds = %.lr.ph, %3
  %proton.i.2 = phi i32 [ 8, %3 ], [ %proton.n.1, %.lr.ph ]
  %14 = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %proton.m.2 = and i32 %proton.i.2, 2047
  %proton.a.2 = add i32 %proton.e.ring, %proton.m.2
  %proton.n.2 = add i32 %proton.i.2, 8
  call void asm sideeffect "st.shared.v2.b32 [$0+48], {$1, $2};", "r,r,r"(i32 %proton.a.2, i32 %14, i32 67108864)
  br label %proton.fin

proton.fin:
  %proton.f.ns = call i64 asm sideeffect "mov.u64 $0, %globaltimer;", "=l"()
  %proton.f.clock = call i64 asm sideeffect "mov.u64 $0, %clock64;", "=l"()
  %proton.f.tid = call i32 asm sideeffect "mov.u32 $0, %tid.x;", "=r"()
  %proton.f.cx = call i32 asm sideeffect "mov.u32 $0, %ctaid.x;", "=r"()
  %proton.f.cy = call i32 asm sideeffect "mov.u32 $0, %ctaid.y;", "=r"()
  %proton.f.cz = call i32 asm sideeffect "mov.u32 $0, %ctaid.z;", "=r"()
  %proton.f.nx = call i32 asm sideeffect "mov.u32 $0, %nctaid.x;", "=r"()
  %proton.f.ny = call i32 asm sideeffect "mov.u32 $0, %nctaid.y;", "=r"()
  %proton.f.lane = call i32 asm sideeffect "mov.u32 $0, %laneid;", "=r"()
  %proton.f.warp = lshr i32 %proton.f.tid, 5
  %proton.f.r0 = mul i32 %proton.f.cz, %proton.f.ny
  %proton.f.r1 = add i32 %proton.f.r0, %proton.f.cy
  %proton.f.r2 = mul i32 %proton.f.r1, %proton.f.nx
  %proton.f.cta = add i32 %proton.f.r2, %proton.f.cx
  %proton.f.unit = add i32 %proton.f.warp, 0
  %proton.f.on0 = or i1 true, true
  %proton.f.slot = add i32 %proton.f.cta, 0
  %proton.f.on1 = and i1 %proton.f.on0, true
  %proton.f.base = ptrtoint ptr addrspace(1) %2 to i64
  %proton.f.there = icmp ne i64 %proton.f.base, 0
  %proton.f.on = and i1 %proton.f.on1, %proton.f.there
  %proton.f.at = call i64 asm "mad.wide.u32 $0, $1, 8576, $2;", "=l,r,l"(i32 %proton.f.slot, i64 %proton.f.base)
  br i1 %proton.f.on, label %proton.out, label %proton.done

proton.out:
  %proton.f.s0 = ptrtoint ptr addrspace(3) @global_smem to i32
  %proton.f.s1 = mul i32 %proton.f.unit, 2112
  %proton.f.s2 = add i32 %proton.f.s0, 0
  %proton.f.ring = add i32 %proton.f.s2, %proton.f.s1
  call void asm sideeffect "bar.warp.sync 0xffffffff;", "~{memory}"()
  %proton.f.near = shl i32 %proton.f.lane, 4
  %proton.f.less = icmp ult i32 %proton.n.2, 2064
  %proton.f.bytes = select i1 %proton.f.less, i32 %proton.n.2, i32 2064
  %proton.f.end = add i32 %proton.f.bytes, 48
  %proton.f.t0 = mul i32 %proton.f.unit, 2064
  %proton.f.tail = add i32 %proton.f.t0, 208
  %proton.f.head = shl i32 %proton.f.unit, 6
  %proton.f.first = icmp ult i32 %proton.f.near, 48
  %proton.f.t1 = select i1 %proton.f.first, i32 %proton.f.head, i32 %proton.f.tail
  %proton.f.t2 = add i32 %proton.f.t1, %proton.f.near
  %proton.f.t3 = zext i32 %proton.f.t2 to i64
  %proton.f.to = add i64 %proton.f.at, %proton.f.t3
  %proton.f.far = add i32 %proton.f.near, 512
  %proton.f.any = icmp ult i32 %proton.f.far, %proton.f.end
  br i1 %proton.f.any, label %proton.copy, label %proton.copied

proton.copy:
  %proton.k = phi i32 [ %proton.f.far, %proton.out ], [ %proton.k.next, %proton.copy ]
  call void asm sideeffect ".pragma \22nounroll\22;", ""()
  %proton.k.from = add i32 %proton.f.ring, %proton.k
  %proton.k.at = add i32 %proton.f.tail, %proton.k
  %proton.k.64 = zext i32 %proton.k.at to i64
  %proton.k.to = add i64 %proton.f.at, %proton.k.64
  call void asm sideeffect "{ .reg .b64 %a, %b; ld.shared.v2.b64 {%a, %b}, [$0]; st.global.v2.b64 [$1], {%a, %b}; }", "r,l,~{memory}"(i32 %proton.k.from, i64 %proton.k.to)
  %proton.k.next = add i32 %proton.k, 512
  %proton.k.more = icmp ult i32 %proton.k.next, %proton.f.end
  br i1 %proton.k.more, label %proton.copy, label %proton.copied

proton.copied:
  call void asm sideeffect "st.shared.v2.b64 [$0+32], {$1, $2};", "r,l,l,~{memory}"(i32 %proton.f.ring, i64 %proton.f.ns, i64 %proton.f.clock)
  %proton.f.sm = call i32 asm "mov.u32 $0, %smid;", "=r"()
  %proton.f.count = lshr i32 %proton.n.2, 3
  %proton.f.clock32 = trunc i64 %proton.f.clock to i32
  %proton.f.last = call i32 asm sideeffect "mov.u32 $0, %clock;", "=r"()
  %proton.f.spent = sub i32 %proton.f.last, %proton.f.clock32
  call void asm sideeffect "st.shared.v4.b32 [$0], {$1, $2, $3, $4};", "r,r,r,r,r,~{memory}"(i32 %proton.f.ring, i32 827282000, i32 %proton.f.sm, i32 %proton.f.count, i32 %proton.f.spent)
  %proton.f.from = add i32 %proton.f.ring, %proton.f.near
  %proton.f.inside = icmp ult i32 %proton.f.near, %proton.f.end
  call void asm sideeffect "{ .reg .b64 %a, %b; @$2 ld.shared.v2.b64 {%a, %b}, [$0]; @$2 st.global.v2.b64 [$1], {%a, %b}; }", "r,l,b,~{memory}"(i32 %proton.f.from, i64 %proton.f.to, i1 %proton.f.inside)
  br label %proton.done

proton.done:
  ret void
}

attributes #0 = { nounwind }
attributes #1 = { nounwind }

!0 = distinct !{!0}
